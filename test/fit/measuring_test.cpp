#include "tensorpager/fit/measuring.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::fit {
namespace {

using Sizes = std::vector<std::uint64_t>;

class MeasureSizes : public testing::Test {
 protected:
  PerSecond measure(const Sizes& sizes, const std::function<double(std::uint64_t)>& rate) {
    return measure_sizes(sizes, [&](std::uint64_t size) {
      runs_.push_back(size);
      return rate(size);
    });
  }

  Sizes runs_;
};

TEST_F(MeasureSizes, TakesTheQuickerOfTwoRunsInTurn) {
  const PerSecond found = measure({10, 20}, [this](std::uint64_t size) {
    const bool is_first_round = runs_.size() <= 2;
    return size == 20 ? (is_first_round ? 9.0 : 1.0) : (is_first_round ? 2.0 : 8.0);
  });
  EXPECT_EQ(runs_, (Sizes{10, 20, 10, 20}));
  EXPECT_EQ(found, (PerSecond{{10, 8.0}, {20, 9.0}}));
  EXPECT_EQ(quickest_of(found), 20u);
}

TEST_F(MeasureSizes, RunsThoseNearTheQuickestTwiceMore) {
  const PerSecond found = measure({10, 20, 30}, [this](std::uint64_t size) {
    const bool was_disturbed = size == 20 && runs_.size() <= 6;
    return was_disturbed ? 9.1 : size == 10 ? 8.9 : size == 20 ? 11.0 : 10.0;
  });
  EXPECT_EQ(runs_, (Sizes{10, 20, 30, 10, 20, 30, 20, 30, 20, 30})) << "10 is too slow";
  EXPECT_EQ(quickest_of(found), 20u);
}

TEST_F(MeasureSizes, GoesOnToSmallerSizesWhileTheSmallestIsTheQuickest) {
  const PerSecond found = measure({50, 70}, [](std::uint64_t size) { return size < 40 ? 1.0 : 100.0 / double(size); });
  EXPECT_EQ(quickest_of(found), 40u);
  EXPECT_EQ(runs_, (Sizes{50, 70, 50, 70, 50, 40, 50, 40, 40, 32, 40, 32})) << "in turn with the quickest";
}

TEST_F(MeasureSizes, EndsAfterThreeSmallerSizesOrAtOne) {
  const auto the_smaller_the_quicker = [](std::uint64_t size) { return 1.0 / double(size); };
  EXPECT_EQ(measure({1000}, the_smaller_the_quicker).begin()->first, 512u);
  EXPECT_EQ(measure({2}, the_smaller_the_quicker).begin()->first, 1u);
}

TEST_F(MeasureSizes, LeavesOutWhatFails) {
  EXPECT_EQ(measure({8, 9}, [](std::uint64_t size) { return size == 9 ? 3.0 : 0.0; }), (PerSecond{{9, 3.0}}));
  EXPECT_EQ(runs_, (Sizes{8, 9, 8, 9, 9, 7, 9, 7})) << "once more for a smaller one, which fails as well";
  EXPECT_TRUE(measure({8}, [](std::uint64_t) { return 0.0; }).empty());
}

}  // namespace
}  // namespace tensorpager::fit
