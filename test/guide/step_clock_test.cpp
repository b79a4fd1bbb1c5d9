#include "tensorpager/guide/step_clock.h"

#include <gtest/gtest.h>

namespace tensorpager::guide {
namespace {

TEST(StepClock, IsTheMedianOfTheLatestSteps) {
  StepClock clock;
  EXPECT_EQ(clock.median(), 0);
  double now = 5;
  clock.step_ends(now);
  EXPECT_EQ(clock.median(), 0) << "one end is no step";
  for (const double took : {8.0, 2.0, 4.0}) clock.step_ends(now += took);
  EXPECT_EQ(clock.median(), 4);
  for (int i = 0; i < 9; ++i) clock.step_ends(now += i == 3 ? 100 : 1);
  EXPECT_EQ(clock.median(), 1) << "earlier ones are forgotten, and a slow one does not count";
}

}  // namespace
}  // namespace tensorpager::guide
