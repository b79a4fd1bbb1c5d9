#include "tensorpager/planning/schedule.h"

#include <gtest/gtest.h>

#include "tensorpager/planning/newest_by_range.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

constexpr std::uint32_t kOps = 10;

/// Ops of a microsecond; a byte takes a nanosecond.
const std::vector<Nanoseconds> kStarts = [] {
  std::vector<Nanoseconds> starts;
  for (std::uint32_t op = 0; op <= kOps; ++op) starts.emplace_back(1000 * op);
  return starts;
}();
const Link kLink = {.latency = Nanoseconds(0), .steps = {{.from = base::Bytes(0), .bytes_per_second = 1e9}}};

Interval born(std::int64_t begin, std::int64_t end, std::uint64_t bytes) {
  return {.storage = StorageId{0},
          .bytes = bytes,
          .begin = begin,
          .need = begin,
          .end = end,
          .release = end,
          .leave = Leave::kPageOut};
}

Interval back(std::int64_t need, std::uint64_t bytes) {
  Interval interval = born(need, need + 1, bytes);
  interval.fill = Fill::kPageIn;
  interval.leave = Leave::kDies;
  interval.previous = 0;
  return interval;
}

// 1,700 bytes take 1.7 us, and with slack 1.96 us: from op 6 they are there for op 8.
TEST(Schedule, SubmitsAPageInAsLateAsItsTransferAllows) {
  std::vector<Interval> intervals = {born(0, 1, 1700), back(8, 1700)};
  schedule_page_ins(intervals, 10'000, kStarts, kLink);
  EXPECT_EQ(intervals[1].begin, 6);
}

// 1,800 bytes take 1.8 us. Begun at op 6 they would be there in time for op 8, but not if ops are a little quicker.
TEST(Schedule, LeavesAPageInSlackForOpsThatVary) {
  std::vector<Interval> intervals = {born(0, 1, 1800), back(8, 1800)};
  schedule_page_ins(intervals, 10'000, kStarts, kLink);
  EXPECT_EQ(intervals[1].begin, 5);
}

TEST(Schedule, SubmitsAPageInLaterWhereThereIsNoRoom) {
  std::vector<Interval> intervals = {born(0, 1, 1700), back(8, 1700), born(5, 7, 9000)};
  schedule_page_ins(intervals, 10'000, kStarts, kLink);
  EXPECT_EQ(intervals[1].begin, 7);
}

TEST(Schedule, NeverSubmitsAPageInBeforeItsPageOut) {
  std::vector<Interval> intervals = {born(0, 4, 9000), back(5, 9000)};
  schedule_page_ins(intervals, 100'000, kStarts, kLink);
  EXPECT_EQ(intervals[1].begin, 4);
}

TEST(Schedule, GivesTwoPageInsTheLinkOneAfterTheOther) {
  std::vector<Interval> intervals = {born(0, 1, 1700), back(8, 1700), back(8, 1700)};
  schedule_page_ins(intervals, 100'000, kStarts, kLink);
  EXPECT_EQ(std::min(intervals[1].begin, intervals[2].begin), 4);
  EXPECT_EQ(std::max(intervals[1].begin, intervals[2].begin), 6);
}

// 3 |    c      b leaves by a page-out before op 2; c fits beside it only once that is waited for, d finds room freed.
TEST(Schedule, WaitsForTheOldestPageOutWhereBytesLack) {
  const auto row = [](std::uint32_t begin, std::uint32_t end, std::uint64_t bytes, Leave leave) {
    return Row{.storage = StorageId{0},
               .bytes = base::Bytes(bytes),
               .begin = begin,
               .need = begin,
               .end = end,
               .leave = leave};
  };
  std::vector<Row> rows = {row(0, 1, 400, Leave::kPageOut), row(0, 2, 400, Leave::kPageOut),
                           row(2, 4, 400, Leave::kDies), row(4, 5, 400, Leave::kDies)};
  wait_by_bytes(rows, kOps, 1000);
  EXPECT_EQ(rows[2].wait, 1u);
  EXPECT_EQ(rows[3].wait, 0u);
}

TEST(Schedule, WaitsByOffsetsForTheNewestPageOutOfTheRange) {
  const auto row = [](std::uint32_t begin, std::uint32_t end, std::uint64_t offset, Leave leave) {
    return Row{.storage = StorageId{0},
               .bytes = base::Bytes(400),
               .offset = offset,
               .begin = begin,
               .need = begin,
               .end = end,
               .leave = leave};
  };
  std::vector<Row> rows = {row(0, 1, 0, Leave::kPageOut), row(0, 2, 400, Leave::kPageOut), row(3, 4, 0, Leave::kDies),
                           row(3, 4, 400, Leave::kDies), row(5, 6, 200, Leave::kDies)};
  wait_by_offsets(rows, kOps);
  EXPECT_EQ(rows[2].wait, 1u);
  EXPECT_EQ(rows[3].wait, 2u);
  EXPECT_EQ(rows[4].wait, 0u) << "both were waited for already";
}

//   offset
//    800  [ a out ][ page-in, needed at 5 ]        a is waited for in the queue; b below it is older, so done by then
//    too
//      0  [ b out ]  [ early ]   [ late ]          `early` is born before compute knows that, `late` when it does
TEST(Schedule, ComputeKnowsOfWhatAPageInWaitedForOnceItWaitedForThePageIn) {
  const auto row = [](std::uint32_t begin, std::uint32_t need, std::uint32_t end, std::uint64_t offset, Fill fill,
                      Leave leave) {
    return Row{.storage = StorageId{0},
               .bytes = base::Bytes(400),
               .offset = offset,
               .begin = begin,
               .need = need,
               .end = end,
               .fill = fill,
               .leave = leave};
  };
  std::vector<Row> rows = {
      row(0, 0, 1, 0, Fill::kBorn, Leave::kPageOut),   row(0, 0, 2, 800, Fill::kBorn, Leave::kPageOut),
      row(2, 5, 6, 1000, Fill::kPageIn, Leave::kDies), row(3, 3, 4, 200, Fill::kBorn, Leave::kDies),
      row(5, 5, 6, 600, Fill::kBorn, Leave::kDies),    row(6, 6, 7, 400, Fill::kBorn, Leave::kDies)};
  wait_by_offsets(rows, kOps);
  EXPECT_EQ(rows[2].wait, 2u);
  EXPECT_EQ(rows[3].wait, 1u) << "the queue waits for it, compute does not";
  EXPECT_EQ(rows[4].wait, 2u) << "op 5 waits for the page-in only after its births";
  EXPECT_EQ(rows[5].wait, 0u);
}

// In its range c is resident until op 5; what is needed at op 8 may be submitted at 5, and not at 3.
TEST(Schedule, DelaysAPageInUntilItsRangeIsNoLongerResident) {
  std::vector<Interval> intervals = {born(0, 1, 400), back(8, 400), born(2, 5, 400)};
  intervals[1].begin = 3;
  intervals[0].offset = 400;
  delay_page_ins(intervals, kOps);
  EXPECT_EQ(intervals[1].begin, 5);
}

TEST(NewestByRange, KeepsTheLastOfEachByte) {
  NewestByRange<int> newest;
  EXPECT_FALSE(newest.newest(0, 100));
  newest.set(0, 100, 1);
  newest.set(50, 100, 2);
  EXPECT_EQ(newest.newest(0, 50), 1);
  EXPECT_EQ(newest.newest(49, 2), 2);
  EXPECT_FALSE(newest.newest(150, 10));
  newest.set(0, 200, 0);
  EXPECT_EQ(newest.newest(0, 200), 0);
}

}  // namespace
}  // namespace tensorpager::planning
