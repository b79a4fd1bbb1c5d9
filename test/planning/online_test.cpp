#include "tensorpager/planning/online.h"

#include <gtest/gtest.h>

#include "../plan/synthetic_traces.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

void expect_placed(const OnlinePlacement& placed, std::uint64_t space, std::uint32_t ops) {
  const auto is_there = [&](const Interval& interval, std::int64_t op) {
    return (interval.need <= op && op < interval.end) || op + ops < interval.end;
  };
  ASSERT_EQ(placed.intervals.size(), placed.earliest.size());
  for (const Interval& interval : placed.intervals) ASSERT_LE(interval.offset + interval.bytes, space);
  for (std::int64_t op = 0; op < ops; ++op) {
    std::vector<Range> taken;
    for (const Interval& interval : placed.intervals) {
      if (is_there(interval, op)) taken.push_back({interval.offset, interval.offset + interval.bytes});
    }
    std::ranges::sort(taken, {}, &Range::begin);
    for (std::size_t i = 1; i < taken.size(); ++i) ASSERT_LE(taken[i - 1].end, taken[i].begin) << "at op " << op;
  }
}

TEST(OnlinePlacement, AlwaysFitsFromTheFloorOn) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = random_trace(seed);
    const Liveness liveness(trace);
    const std::uint64_t space = (liveness.floor() - liveness.slab()).count();
    for (const Victim victim : {Victim::kLeastRecentlyUsed, Victim::kFarthestNextUse}) {
      expect_placed(place_online(liveness, space, trace.granule, victim), space, liveness.ops());
      if (HasFatalFailure()) return;
    }
  }
}

// So much is resident that not all runs of neighbours are looked at.
TEST(OnlinePlacement, FitsWhereThousandsAreResident) {
  const trace::Trace trace = layered_trace(12'000);
  const Liveness liveness(trace);
  const std::uint64_t need = (liveness.need() - liveness.slab()).count();
  for (const std::uint64_t percent : {30, 60}) {
    const std::uint64_t space = need / 100 * percent / 512 * 512;
    const OnlinePlacement placed = place_online(liveness, space, trace.granule, Victim::kFarthestNextUse);
    std::ptrdiff_t resident = 0;
    for (const Interval& interval : placed.intervals) resident += interval.need <= 4000 && 4000 < interval.end ? 1 : 0;
    EXPECT_GT(resident, 1024);
    EXPECT_GT(std::ranges::count(placed.intervals, Fill::kPageIn, &Interval::fill), 0);
    expect_placed(placed, space, liveness.ops());
    if (HasFatalFailure()) return;
  }
}

TEST(OnlinePlacement, MovesNothingWhereAllFits) {
  const trace::Trace trace = layered_trace(100);
  const Liveness liveness(trace);
  const std::uint64_t space = liveness.need().count() * 2;
  for (const Interval& interval : place_online(liveness, space, trace.granule, Victim::kFarthestNextUse).intervals)
    EXPECT_TRUE(interval.fill != Fill::kPageIn && interval.leave != Leave::kPageOut);
}

// Before op c one of the two must go: a, used longest ago, or b, needed last.
TEST(OnlinePlacement, ChoosesItsVictimAsItIsTold) {
  trace::Trace trace = {.granule = 4_KiB};
  trace.storages.assign(3, {.bytes = 20'480_B, .entry = true});
  for (const std::size_t id : {0, 1, 2, 0, 1}) trace.ops.push_back({.name = "op", .reads = {storage(id)}});
  const Liveness liveness(trace);
  const auto page_ins = [&](Victim victim) {
    return std::ranges::count(place_online(liveness, 40'960, trace.granule, victim).intervals, Fill::kPageIn,
                              &Interval::fill);
  };
  EXPECT_GT(page_ins(Victim::kLeastRecentlyUsed), page_ins(Victim::kFarthestNextUse));
}

TEST(OnlinePlacement, KeepsABoundaryOrSaysThatItDoesNot) {
  trace::Trace trace = {.granule = 4_KiB};
  trace.storages.assign(2, {.bytes = 20'480_B, .entry = true});
  for (const std::size_t id : {0, 1, 0}) trace.ops.push_back({.name = "op", .reads = {storage(id)}});
  const Liveness liveness(trace);
  const Boundary first_below = {20'480, std::nullopt};
  const auto placed = place_online_within(liveness, 40'960, trace.granule, first_below, Victim::kFarthestNextUse);
  ASSERT_TRUE(placed);
  for (const Interval& interval : placed->intervals) {
    EXPECT_TRUE(interval.storage != storage(0) || interval.offset == 20'480u);
  }
  EXPECT_FALSE(
      place_online_within(liveness, 20'480, trace.granule, Boundary{std::nullopt, 0}, Victim::kFarthestNextUse));
}

}  // namespace
}  // namespace tensorpager::planning
