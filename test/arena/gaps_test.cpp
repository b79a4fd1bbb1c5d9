#include "tensorpager/arena/gaps.h"

#include <gtest/gtest.h>

namespace tensorpager::arena {
namespace {

TEST(Gaps, LeaveWhatIsBesideATakenRange) {
  Gaps gaps;
  gaps.add(10, 20);
  gaps.take(12, 15);
  EXPECT_EQ(gaps.by_begin(), (Gaps::ByBegin{{10, 12}, {15, 20}}));
  EXPECT_EQ(gaps.by_size(), (Gaps::BySize{{2, 10}, {5, 15}}));
  gaps.take(15, 20);
  EXPECT_EQ(gaps.by_begin(), (Gaps::ByBegin{{10, 12}}));
}

TEST(Gaps, JoinThoseThatAGivenRangeTouches) {
  Gaps gaps;
  gaps.add(0, 2);
  gaps.add(5, 7);
  gaps.give_back(9, 10);
  EXPECT_EQ(gaps.by_begin(), (Gaps::ByBegin{{0, 2}, {5, 7}, {9, 10}}));
  gaps.give_back(2, 5);
  EXPECT_EQ(gaps.by_begin(), (Gaps::ByBegin{{0, 7}, {9, 10}}));
  EXPECT_EQ(gaps.by_size(), (Gaps::BySize{{1, 9}, {7, 0}}));
}

TEST(Gaps, AreNotEmpty) {
  Gaps gaps;
  gaps.add(3, 3);
  gaps.give_back(4, 4);
  EXPECT_TRUE(gaps.by_begin().empty() && gaps.by_size().empty());
}

}  // namespace
}  // namespace tensorpager::arena
