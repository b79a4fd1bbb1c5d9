#include "tensorpager/fit/search.h"

#include <gtest/gtest.h>

#include "tensorpager/plan/liveness.h"

namespace tensorpager::fit {
namespace {

using namespace base;
using namespace std::chrono_literals;
using trace::StorageId;
using trace::Trace;

/// 16 layers whose maps are used in reverse, 64 KiB and 1 us a sample; the link takes 6.5 us for a map of one.
Trace sized_net(std::uint64_t samples) {
  constexpr std::uint32_t kLayers = 16;
  Trace trace{.granule = 512_B};
  for (std::uint32_t i = 0; i < kLayers; ++i) trace.storages.push_back({.bytes = Bytes(samples << 16)});
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    trace.ops.push_back({.name = "forward", .births = {StorageId{i}}, .flops = 1000 * samples});
    if (i > 0) trace.ops.back().reads = {StorageId{i - 1}};
  }
  for (std::uint32_t i = kLayers; i-- > 0;)
    trace.ops.push_back(
        {.name = "backward", .reads = {StorageId{i}}, .deaths = {StorageId{i}}, .flops = 1000 * samples});
  return trace;
}

machine::Machine slow_link() {
  machine::Machine made;
  made.flop_rates.set(base::OpClass::kProduct, base::Precision::kFloat32, 1e9);
  made.byte_rate = 1e12;
  made.launch = 100us;
  made.out = made.in = {.latency = 0ns, .steps = {{.from = 0_B, .bytes_per_second = 1e10}}};
  return made;
}

Found found(Question question) {
  const Scaling scaling({.size = 8, .trace = sized_net(8)}, {.size = 16, .trace = sized_net(16)});
  return search(scaling, slow_link(), *planning::make_pages_planner(), question);
}

TEST(Search, LargestWithoutPagingAndLargestAtAllAreExact) {
  const Bytes budget{std::uint64_t{100} << 20};
  const Found all = found({.budget = budget});
  ASSERT_TRUE(all.unpaged && all.largest);
  EXPECT_EQ(all.unpaged->size, 100u) << "16 maps of 1 MiB for each 16 samples";
  EXPECT_LE(plan::Liveness(sized_net(all.unpaged->size)).need(), budget);
  EXPECT_GT(plan::Liveness(sized_net(all.unpaged->size + 1)).need(), budget);
  EXPECT_LE(plan::Liveness(sized_net(all.largest->size)).floor(), budget);
  EXPECT_GT(all.largest->size, 500u) << "two maps at once";
}

TEST(Search, SizesGrowWithTheOverheadThatIsAllowed) {
  const Found all = found({.budget = Bytes(std::uint64_t{100} << 20), .most_plans = 60});
  const Question question{.budget = {}};
  std::uint64_t before = all.unpaged->size;
  for (std::size_t i = 0; i < question.overheads.size(); ++i) {
    ASSERT_TRUE(all.within[i]);
    EXPECT_LE(all.within[i]->cost.overhead, question.overheads[i]);
    EXPECT_GE(all.within[i]->size, before);
    before = all.within[i]->size;
  }
  EXPECT_GT(before, all.unpaged->size);
  EXPECT_GE(all.largest->size, before);
  EXPECT_GT(all.largest->cost.on_host, 0_B);
}

TEST(Search, SizesForOverheadsAreExactToAHundredthIfPlansAreLeft) {
  const Found all = found({.budget = Bytes(std::uint64_t{100} << 20), .most_plans = 60});
  for (const auto& within : all.within) {
    ASSERT_TRUE(within);
    const auto above = std::ranges::upper_bound(all.tried, within->size, {}, &Point::size);
    ASSERT_NE(above, all.tried.end());
    EXPECT_LE(above->size - within->size, std::max<std::uint64_t>(1, above->size / 100));
  }
}

TEST(Search, QuickestHasTheMostPerSecondOfAllWithinItsOverhead) {
  const Found all = found({.budget = Bytes(std::uint64_t{100} << 20), .within = 0.25});
  ASSERT_TRUE(all.quickest);
  EXPECT_LE(all.quickest->cost.overhead, 0.25);
  for (const Point& point : all.tried)
    EXPECT_TRUE(point.cost.overhead > 0.25 || point.per_second() <= all.quickest->per_second()) << point.size;
}

TEST(Search, FindsNothingWhereNotEvenOneFits) {
  const Found all = found({.budget = 64_KiB});
  EXPECT_FALSE(all.unpaged || all.largest || all.quickest);
  EXPECT_FALSE(all.within.front());
}

TEST(Search, MakesNoMorePlansThanItMay) {
  const Scaling scaling({.size = 8, .trace = sized_net(8)}, {.size = 16, .trace = sized_net(16)});
  unsigned plans = 0;
  search(scaling, slow_link(), *planning::make_pages_planner(),
         {.budget = Bytes(std::uint64_t{100} << 20), .most_plans = 4},
         [&](std::uint64_t, Effort effort) { plans += effort == Effort::kQuick ? 1 : 0; });
  EXPECT_EQ(plans, 4u);
}

TEST(Found, KeepsAMeasuredSizeInOrderAndOnce) {
  Found found;
  for (const std::uint64_t size : {2, 8}) found.tried.push_back({.size = size, .need = {}, .floor = {}, .cost = {}});
  for (const std::uint64_t size : {4, 8}) {
    found.add_quickest({.size = size, .need = {}, .floor = {}, .cost = {}});
    EXPECT_EQ(found.quickest->size, size);
  }
  std::vector<std::uint64_t> sizes;
  for (const Point& point : found.tried) sizes.push_back(point.size);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{2, 4, 8}));
}

TEST(NearQuickest, SpreadsOverThoseThatMayBeTheQuickest) {
  Found all;
  const auto point_of = [](std::uint64_t size, double per_second, double overhead) {
    Point point;
    point.size = size;
    const std::chrono::duration<double> step(static_cast<double>(size) / per_second);
    point.cost.step = std::chrono::duration_cast<machine::Nanoseconds>(step);
    point.cost.overhead = overhead;
    return point;
  };
  for (std::uint64_t size = 1; size <= 9; ++size) all.tried.push_back(point_of(size, size == 1 ? 50 : 90, 0));
  all.tried.push_back(point_of(10, 100, 0.1));
  all.tried.push_back(point_of(11, 200, 0.5));
  all.quickest = all.tried[9];
  const auto sizes_of = [](const std::vector<Point>& points) {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(points.size());
    for (const Point& point : points) sizes.push_back(point.size);
    return sizes;
  };
  EXPECT_EQ(sizes_of(near_quickest(all, 0.1, 5)), (std::vector<std::uint64_t>{2, 4, 6, 8, 10}));
  EXPECT_EQ(near_quickest(all, 0.1, 20).size(), 9u);
  all.unpaged = all.tried[4];
  EXPECT_EQ(sizes_of(near_quickest(all, 0.1, 5)), (std::vector<std::uint64_t>{2, 5, 6, 8, 10}));
  all.unpaged = all.tried[0];
  EXPECT_EQ(sizes_of(near_quickest(all, 0.1, 5)), (std::vector<std::uint64_t>{2, 4, 6, 8, 10})) << "far too slow";
}

TEST(LargestSize, IsExactFromAnyStart) {
  for (const std::uint64_t near : {1, 7, 100, 1000})
    for (const std::uint64_t most : {0, 1, 2, 6, 7, 8, 99, 100, 12345})
      EXPECT_EQ(largest_size(near, 1'000'000, [&](std::uint64_t size) { return size <= most; }), most) << near;
}

TEST(LargestSize, IsNoMoreThanMakesSense) {
  for (const std::uint64_t near : {1, 7, 99, 100, 101, 1000}) {
    EXPECT_EQ(largest_size(near, 100, [](std::uint64_t) { return true; }), 100u) << near;
    EXPECT_EQ(largest_size(near, 100, [](std::uint64_t size) { return size < 100; }), 99u) << near;
  }
}

}  // namespace
}  // namespace tensorpager::fit
