#include "tensorpager/replay/drawing.h"

#include <gtest/gtest.h>

#include <thread>

namespace tensorpager::replay {
namespace {

void draw_on_another_thread() {
  std::thread([] { const Drawing drawing(true); }).join();
}

TEST(Drawing, IsAloneIfNobodyDrawsMeanwhile) {
  draw_on_another_thread();
  const Drawing drawing(true);
  EXPECT_TRUE(drawing.is_alone());
}

TEST(Drawing, IsNotAloneIfAnotherThreadDraws) {
  const Drawing drawing(true);
  draw_on_another_thread();
  EXPECT_FALSE(drawing.is_alone());
}

TEST(Drawing, IsNotAloneIfAnotherThreadIsDrawing) {
  const Drawing drawing(true);
  bool is_alone = true;
  std::thread([&] {
    const Drawing other(true);
    is_alone = other.is_alone();
  }).join();
  EXPECT_FALSE(is_alone);
}

TEST(Drawing, TakesDrawsInsideForAPart) {
  const Drawing drawing(true);
  {
    const Drawing inner(true);
    EXPECT_TRUE(inner.is_alone());
  }
  EXPECT_TRUE(drawing.is_alone());
}

TEST(Drawing, TakesNoHeedOfCallsThatDrawNothing) {
  const Drawing drawing(true);
  std::thread([] { const Drawing other(false); }).join();
  EXPECT_TRUE(drawing.is_alone());
  draw_on_another_thread();
  const Drawing none(false);
  EXPECT_TRUE(none.is_alone());
}

}  // namespace
}  // namespace tensorpager::replay
