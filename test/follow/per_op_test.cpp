#include "tensorpager/follow/per_op.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::follow {
namespace {

TEST(PerOp, HasTheListOfEachOpAndEmptyOnes) {
  PerOp<int> lists;
  lists.add(1);
  lists.add(2);
  lists.end_op();
  lists.end_op();
  lists.add(3);
  lists.end_op();
  const auto values = [&](std::uint32_t op) { return std::vector<int>(lists[op].begin(), lists[op].end()); };
  EXPECT_EQ(values(0), (std::vector{1, 2}));
  EXPECT_TRUE(lists[1].empty());
  EXPECT_EQ(values(2), std::vector{3});
}

}  // namespace
}  // namespace tensorpager::follow
