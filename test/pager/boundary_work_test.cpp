#include "tensorpager/pager/boundary_work.h"

#include <gtest/gtest.h>

namespace tensorpager::pager {
namespace {

TEST(BoundaryWork, IsDueFromTheOpOnThatTheTaskWaitsFor) {
  BoundaryWork work;
  EXPECT_FALSE(work.is_due(1000));
  work.set_task([] {}, 5);
  EXPECT_FALSE(work.is_due(4));
  EXPECT_EQ(work.take_task(4), nullptr);
  EXPECT_TRUE(work.is_due(7));
  EXPECT_NE(work.take_task(7), nullptr);
  EXPECT_FALSE(work.is_due(8));
  EXPECT_EQ(work.take_task(8), nullptr) << "once";
}

TEST(BoundaryWork, KeepsTheNewestTask) {
  BoundaryWork work;
  int called = 0;
  work.set_task([&] { called = 1; }, 5);
  work.set_task([&] { called = 2; }, 6);
  EXPECT_FALSE(work.is_due(5));
  work.take_task(6)();
  EXPECT_EQ(called, 2);
}

TEST(BoundaryWork, IsDueAtEachOpWhereThereIsWorkAtEach) {
  BoundaryWork work;
  work.set_work_at_each_op(true);
  EXPECT_TRUE(work.is_due(0));
  EXPECT_EQ(work.take_task(0), nullptr);
  work.set_work_at_each_op(false);
  EXPECT_FALSE(work.is_due(0));
}

}  // namespace
}  // namespace tensorpager::pager
