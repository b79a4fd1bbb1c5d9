#include "tensorpager/planning/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "../plan/synthetic_traces.h"
#include "tensorpager/planning/interval.h"
#include "tensorpager/planning/packing/packing.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;

constexpr Bytes kSize = Bytes(20'480);

trace::Op use(std::size_t id) { return {.name = "use", .reads = {storage(id)}}; }

/// So many storages of one size that live on, used by ops in this order.
trace::Trace uses(std::size_t storages, const std::vector<std::size_t>& order) {
  trace::Trace trace = {.granule = 4_KiB};
  trace.storages.assign(storages, {.bytes = kSize, .entry = true});
  for (const std::size_t id : order) trace.ops.push_back(use(id));
  return trace;
}

std::int64_t after_use(const Liveness& liveness, const Evictions& evictions, std::size_t id, std::size_t number) {
  return evictions.after_use[liveness.first_use(storage(id)) + number];
}

Evictions evict_all_free(const Liveness& liveness, std::uint64_t storages) {
  return choose_evictions(liveness, storages * kSize.count(), all_entries(liveness), WindowEnds::kFree);
}

// At op 2 either 0 (next at op 5) or 1 (next at op 3) must go.
TEST(Eviction, TakesWhatIsNeededLast) {
  const trace::Trace trace = uses(3, {0, 1, 2, 1, 2, 0});
  const Liveness liveness(trace);
  const Evictions evictions = evict_all_free(liveness, 2);
  EXPECT_NE(after_use(liveness, evictions, 0, 0), kNever);
  EXPECT_EQ(after_use(liveness, evictions, 1, 0), kNever);
}

// At op 3 one large storage (next at op 4) or two small ones (next at ops 5 and 6) must go.
TEST(Eviction, TakesFewerLargerOnesWhereEachTransferCosts) {
  trace::Trace trace = uses(4, {0, 1, 2, 3, 0, 1, 2});
  trace.storages[0].bytes = Bytes(4 * kSize.count());
  trace.storages[3].bytes = Bytes(2 * kSize.count());
  const Liveness liveness(trace);
  const auto evict = [&](std::uint64_t overhead) {
    return choose_evictions(liveness, 6 * kSize.count(), {true, true, true, false}, WindowEnds::kFree,
                            {.overhead = overhead});
  };
  EXPECT_EQ(after_use(liveness, evict(0), 0, 0), kNever);
  EXPECT_NE(after_use(liveness, evict(0), 1, 0), kNever);
  EXPECT_NE(after_use(liveness, evict(16 * kSize.count()), 0, 0), kNever);
}

// At op 2 either 0 must go (next at op 6) or 1, which is not used again, but dies.
TEST(Eviction, TakesWhatDiesForTheRoomThatItGivesUntilThen) {
  const auto dying_goes = [](std::uint32_t death, double both_ways) {
    trace::Trace trace = {.granule = 4_KiB};
    trace.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}, {.bytes = kSize, .entry = true}};
    trace.ops = {use(0), {.name = "make", .births = {storage(1)}}, use(2), use(2), use(2), use(2), use(0)};
    trace.ops[death].deaths = {storage(1)};
    const Liveness liveness(trace);
    const Evictions evictions = choose_evictions(liveness, 2 * kSize.count(), {true, false, false}, WindowEnds::kFixed,
                                                 {.both_ways = both_ways});
    const bool dying = after_use(liveness, evictions, 1, 0) != kNever;
    EXPECT_NE(after_use(liveness, evictions, 0, 0) != kNever, dying);
    return dying;
  };
  EXPECT_FALSE(dying_goes(3, 2));
  EXPECT_TRUE(dying_goes(5, 2));
  EXPECT_FALSE(dying_goes(5, 1));
  EXPECT_TRUE(dying_goes(3, 8));
}

TEST(Eviction, TakesNothingWhereAllFits) {
  const trace::Trace trace = uses(3, {0, 1, 2, 1, 2, 0});
  const Evictions evictions = evict_all_free(Liveness(trace), 3);
  EXPECT_TRUE(std::ranges::all_of(evictions.after_use, [](std::int64_t op) { return op == kNever; }));
}

TEST(Eviction, NeverTakesWhatTheOpUses) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const trace::Trace trace = random_trace(seed);
    const Liveness liveness(trace);
    const std::uint64_t space = (liveness.floor() - liveness.slab()).count();
    const Evictions evictions = choose_evictions(liveness, space, all_entries(liveness), WindowEnds::kFree);
    for (std::uint32_t i = 0; i < liveness.storages(); ++i) {
      const auto of = liveness.uses(storage(i));
      for (std::size_t k = 0; k < of.size(); ++k) {
        const std::int64_t op = evictions.after_use[liveness.first_use(storage(i)) + k];
        if (op == kNever) continue;
        // Between this use and the next, which for the last is in the next window.
        ASSERT_GT(op, of[k].op) << "seed " << seed;
        const std::int64_t next = k + 1 < of.size() ? of[k + 1].op : std::int64_t{of[0].op} + liveness.ops();
        ASSERT_LE(op, std::max<std::int64_t>(next, liveness.ops())) << "seed " << seed;
      }
    }
  }
}

// What is not to be resident at the window's ends is evicted before, though there is room.
TEST(Eviction, EmptiesTheWindowsEndsThatAreFixedEmpty) {
  const trace::Trace trace = uses(2, {0, 1});
  const Liveness liveness(trace);
  const Evictions evictions = choose_evictions(liveness, 2 * kSize.count(), std::vector<bool>(2), WindowEnds::kFixed);
  EXPECT_EQ(after_use(liveness, evictions, 0, 0), 2);
  EXPECT_EQ(after_use(liveness, evictions, 1, 0), 2);
}

TEST(Eviction, LeavesUnusedStoragesBelowWhereTheRoomIsNeeded) {
  const trace::Trace trace = uses(3, {0, 1});
  EXPECT_TRUE(evict_all_free(Liveness(trace), 3).unused_resident[2]);
  EXPECT_FALSE(evict_all_free(Liveness(trace), 1).unused_resident[2]);
}

/// The times at which ops start, if each takes so long.
std::vector<Nanoseconds> starts_of(const std::vector<int>& times) {
  std::vector<Nanoseconds> starts(1);
  for (const int time : times) starts.push_back(starts.back() + Nanoseconds(time));
  return starts;
}

// 0 is idle for two short ops, 1 for a long one.
TEST(LongestIdle, IsToldByTime) {
  trace::Trace trace = uses(3, {0, 1, 2, 1, 0, 2});
  for (trace::Storage& each : trace.storages) each.entry = false;
  for (const std::size_t op : {0, 1, 2}) trace.ops[op].births = std::exchange(trace.ops[op].reads, {});
  trace.ops[4].deaths = {storage(0), storage(1)};
  trace.ops[5].deaths = {storage(2)};
  const Liveness liveness(trace);
  const auto evict = [&](const std::vector<int>& times) {
    return evict_longest_idle(liveness, 2 * kSize.count(), starts_of(times));
  };
  EXPECT_EQ(after_use(liveness, evict({1, 1, 1, 1, 1, 1}), 0, 0), 1);
  EXPECT_EQ(after_use(liveness, evict({1, 1, 1, 1, 1, 1}), 1, 0), kNever);
}

TEST(LongestIdle, TakesParametersLast) {
  trace::Trace trace = uses(3, {0, 1, 2, 2, 1, 0});
  trace.storages[1].entry = trace.storages[2].entry = false;
  trace.ops[1].births = std::exchange(trace.ops[1].reads, {});
  trace.ops[2].births = std::exchange(trace.ops[2].reads, {});
  trace.ops[4].deaths = {storage(1), storage(2)};
  const Liveness liveness(trace);
  const std::vector<Nanoseconds> starts = starts_of({1, 1, 1, 1, 1, 1});
  const Evictions one = evict_longest_idle(liveness, 2 * kSize.count(), starts);
  EXPECT_EQ(after_use(liveness, one, 0, 0), kNever);
  EXPECT_EQ(after_use(liveness, one, 1, 0), 2);
  const Evictions both = evict_longest_idle(liveness, kSize.count(), starts);
  EXPECT_EQ(after_use(liveness, both, 0, 0), 1);
}

TEST(LongestIdle, TakesNothingWhereAllFits) {
  const trace::Trace trace = uses(3, {0, 1, 2, 1, 2, 0});
  const Liveness liveness(trace);
  const Evictions evictions = evict_longest_idle(liveness, 3 * kSize.count(), starts_of({1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(std::ranges::all_of(evictions.after_use, [](std::int64_t op) { return op == kNever; }));
}

// 0 is idle for longest, but too small for op 2; when 1 has gone, there is room for 0 again.
TEST(LongestIdle, KeepsWhatOthersMadeRoomFor) {
  trace::Trace trace = uses(3, {0, 1, 2, 1, 0});
  for (trace::Storage& each : trace.storages) each.entry = false;
  for (const std::size_t op : {0, 1, 2}) trace.ops[op].births = std::exchange(trace.ops[op].reads, {});
  trace.storages[1].bytes = Bytes(3 * kSize.count());
  trace.storages[2].bytes = Bytes(2 * kSize.count());
  trace.ops[2].deaths = {storage(2)};
  trace.ops[4].deaths = {storage(0), storage(1)};
  const Liveness liveness(trace);
  const Evictions evictions = evict_longest_idle(liveness, 4 * kSize.count(), starts_of({1, 1, 1, 1, 1}));
  EXPECT_EQ(after_use(liveness, evictions, 0, 0), kNever);
  EXPECT_EQ(after_use(liveness, evictions, 1, 0), 2);
}

TEST(LongestIdle, LeavesRoomForEachOp) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = random_trace(seed);
    const Liveness liveness(trace);
    const std::uint64_t floor = (liveness.floor() - liveness.slab()).count();
    const std::uint64_t space = floor + (liveness.need() - liveness.floor()).count() * (seed % 5) / 5;
    const std::vector<Nanoseconds> starts = starts_of(std::vector<int>(liveness.ops(), 10));
    const std::vector<Interval> intervals = make_intervals(liveness, evict_longest_idle(liveness, space, starts), true);
    EXPECT_LE(most_taken(intervals, liveness.ops()), space);
  }
}

}  // namespace
}  // namespace tensorpager::planning
