#include "tensorpager/planning/interval.h"

#include <gtest/gtest.h>

#include "../plan/synthetic_traces.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;

/// 0 is born at op 0, read at ops 2 and 4, and dies there.
trace::Trace one_life() {
  const auto op = [](std::vector<trace::StorageId> reads) {
    return trace::Op{.name = "op", .reads = std::move(reads)};
  };
  trace::Trace trace = {.granule = 4_KiB, .storages = {{.bytes = 20'480_B}}};
  trace.ops = {op({}), op({}), op({storage(0)}), op({}), op({storage(0)})};
  trace.ops[0].births = {storage(0)};
  trace.ops[4].deaths = {storage(0)};
  return trace;
}

Evictions none(const Liveness& liveness) {
  return {.after_use = std::vector<std::int64_t>(liveness.all_uses(), kNever),
          .unused_resident = std::vector<bool>(liveness.storages(), true)};
}

TEST(Intervals, LastFromBirthToDeathWhereNothingIsEvicted) {
  const trace::Trace trace = one_life();
  const Liveness liveness(trace);
  const auto intervals = make_intervals(liveness, none(liveness), true);
  ASSERT_EQ(intervals.size(), 1u);
  EXPECT_EQ(std::tuple(intervals[0].begin, intervals[0].end), std::tuple(0, 5));
  EXPECT_EQ(std::tuple(intervals[0].fill, intervals[0].leave), std::tuple(Fill::kBorn, Leave::kDies));
}

// born 0-1, out; back for op 2, where nothing is written: dropped; back for op 4.
TEST(Intervals, ArePagedOutDirtyAndDroppedClean) {
  const trace::Trace trace = one_life();
  const Liveness liveness(trace);
  Evictions evictions = none(liveness);
  evictions.after_use[0] = 1;
  evictions.after_use[1] = 3;
  const auto intervals = make_intervals(liveness, evictions, true);
  ASSERT_EQ(intervals.size(), 3u);
  EXPECT_EQ(intervals[0].leave, Leave::kPageOut);
  EXPECT_EQ(std::tuple(intervals[1].fill, intervals[1].leave), std::tuple(Fill::kPageIn, Leave::kDrop));
  EXPECT_EQ(std::tuple(intervals[1].need, intervals[1].end, intervals[1].previous), std::tuple(2, 3, 0u));
  EXPECT_EQ(std::tuple(intervals[2].fill, intervals[2].leave, intervals[2].previous),
            std::tuple(Fill::kPageIn, Leave::kDies, 1u));
}

TEST(Intervals, EndWhereTheRoomIsNeededIfNotEarly) {
  const trace::Trace trace = one_life();
  const Liveness liveness(trace);
  Evictions evictions = none(liveness);
  evictions.after_use[0] = 2;
  EXPECT_EQ(make_intervals(liveness, evictions, true)[0].end, 1);
  EXPECT_EQ(make_intervals(liveness, evictions, false)[0].end, 2);
}

// A parameter that is evicted between ops 1 and 3 is resident from op 3 on, over the window's end, until op 1.
TEST(Intervals, GoOverTheWindowsEndAsTwoRowsAtOneOffset) {
  trace::Trace trace = {.granule = 4_KiB, .storages = {{.bytes = 20'480_B, .entry = true}}};
  trace.ops.assign(5, {.name = "op"});
  trace.ops[1].reads = {storage(0)};
  trace.ops[3].writes = {storage(0)};
  const Liveness liveness(trace);
  Evictions evictions = none(liveness);
  evictions.after_use[0] = 2;
  auto intervals = make_intervals(liveness, evictions, true);
  ASSERT_EQ(intervals.size(), 1u);
  EXPECT_EQ(std::tuple(intervals[0].begin, intervals[0].end), std::tuple(3, 7));
  EXPECT_EQ(intervals[0].leave, Leave::kPageOut);
  intervals[0].offset = 4096;
  std::vector<std::uint32_t> ticket_of;
  const std::vector<Row> rows = make_rows(intervals, 5, &ticket_of);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(std::tuple(rows[0].begin, rows[0].end, rows[0].fill, rows[0].leave),
            std::tuple(0u, 2u, Fill::kBoundary, Leave::kPageOut));
  EXPECT_EQ(std::tuple(rows[1].begin, rows[1].end, rows[1].fill, rows[1].leave),
            std::tuple(3u, 5u, Fill::kPageIn, Leave::kBoundary));
  EXPECT_EQ(rows[0].offset, rows[1].offset);
  EXPECT_EQ(ticket_of, std::vector<std::uint32_t>{1});
}

TEST(Intervals, OfTemporariesLastForTheirOp) {
  trace::Trace trace = {.granule = 4_KiB, .ops = {{.name = "a"}, {.name = "b", .temporary = 20'000_B}}};
  const Liveness liveness(trace);
  const auto intervals = make_intervals(liveness, none(liveness), true);
  ASSERT_EQ(intervals.size(), 1u);
  EXPECT_EQ(std::tuple(intervals[0].begin, intervals[0].end, intervals[0].bytes), std::tuple(1, 2, 20'480u));
}

}  // namespace
}  // namespace tensorpager::planning
