#include "tensorpager/planning/packing/packing.h"

#include <gtest/gtest.h>

#include <random>

#include "random_intervals.h"
#include "tensorpager/planning/caching_model.h"
#include "tensorpager/planning/packing/ejection.h"
#include "tensorpager/planning/packing/online_packing.h"
#include "tensorpager/planning/packing/placed_blocks.h"
#include "tensorpager/planning/schedule.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

std::uint64_t pack(std::vector<Interval>& intervals, std::uint64_t space) {
  PackingEffort effort;
  return pack(intervals, kStarts, space, effort);
}

void expect_disjoint(const std::vector<Interval>& intervals) {
  for (std::int64_t op = 0; op < kOps; ++op) {
    for (const Interval& a : intervals) {
      for (const Interval& b : intervals) {
        if (&a == &b || !is_there(a, op) || !is_there(b, op)) continue;
        ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << "at op " << op;
      }
    }
  }
}

// 4 |        ccc
// 3 |  bbbbbb          Best fit by begin puts c above b; by size all lies in 4.
// 1 |  a     cc...
TEST(Packing, FillsASpaceToTheByteWhereAnOrderDoes) {
  std::vector<Interval> intervals = {block(0, 2, 1), block(0, 6, 3), block(2, 6, 1), block(6, 9, 4)};
  EXPECT_EQ(pack(intervals, 4), 4u);
  expect_disjoint(intervals);
}

TEST(Packing, KeepsOneOffsetOverTheWindowsEnd) {
  std::vector<Interval> intervals = {block(35, 45, 512), block(0, 40, 512), block(10, 30, 512)};
  EXPECT_EQ(pack(intervals, 1024), 1024u);
  expect_disjoint(intervals);
}

TEST(Packing, NeverLetsTwoBlocksOverlap) {
  double waste = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Interval> intervals = random_intervals(seed);
    const std::uint64_t live = most_live(intervals);
    const std::uint64_t top = pack(intervals, live);
    expect_disjoint(intervals);
    if (HasFatalFailure()) return;
    std::uint64_t highest = 0;
    for (const Interval& interval : intervals) highest = std::max(highest, interval.offset + interval.bytes);
    ASSERT_EQ(top, highest);
    ASSERT_GE(top, live);
    waste += static_cast<double>(top) / static_cast<double>(live) - 1;
  }
  EXPECT_LT(waste / 300, 0.05);
}

TEST(OnlinePacking, NeverLetsTwoBlocksOverlap) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Interval> intervals = random_intervals(seed);
    const std::vector<std::uint64_t> offsets = pack_online(intervals, kOps);
    for (std::size_t i = 0; i < intervals.size(); ++i) intervals[i].offset = offsets[i];
    expect_disjoint(intervals);
    if (HasFatalFailure()) return;
  }
}

/// Like random_intervals, with transfers around the residence.
std::vector<Interval> random_transfers(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals = random_intervals(seed);
  for (Interval& interval : intervals) {
    interval.fill = random() % 2 == 0 ? Fill::kPageIn : Fill::kBorn;
    if (interval.fill == Fill::kPageIn) interval.need = std::min<std::int64_t>(interval.begin + random() % 4, kOps - 1);
    interval.end = std::max<std::int64_t>(interval.need + 1, interval.release);
    interval.release = std::min(interval.end + static_cast<std::int64_t>(random() % 6), interval.begin + kOps);
    interval.release = std::max(interval.release, interval.end);
  }
  return intervals;
}

std::vector<Interval> residence_of(std::vector<Interval> intervals) {
  for (Interval& interval : intervals) {
    interval.begin = interval.need;
    interval.release = interval.end;
  }
  return intervals;
}

TEST(PackingOverTransfers, NeverLetsTwoResidentBlocksOverlap) {
  int packed = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    for (const PackingOrder by : {PackingOrder::kSize, PackingOrder::kArea, PackingOrder::kBegin}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<Interval> intervals = random_transfers(seed);
      const std::uint64_t space = most_live(residence_of(intervals)) * 11 / 10;
      PackingEffort effort;
      if (!pack_over_transfers(intervals, kStarts, space, by, effort)) continue;
      ++packed;
      for (const Interval& interval : intervals) ASSERT_LE(interval.offset + interval.bytes, space);
      expect_disjoint(residence_of(intervals));
      // Page-ins that are moved later no longer begin where something else is resident; tails are for waits.
      delay_page_ins(intervals, kOps);
      for (Interval& interval : intervals) {
        ASSERT_LE(interval.begin, interval.need);
        interval.release = interval.end;
      }
      expect_disjoint(intervals);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(packed, 700);
}

// 3 |     b       The tail of a (.) lasts as long as its page-out is expected to take. Where there is no room for b, it
// 2 | aa..b       goes there, and not to where c's tail lasts longer.
// 1 | cc....
TEST(PackingOverTransfers, TakesTheRangeThatIsWaitedForTheLeast) {
  std::vector<Interval> intervals = {block(0, 2, 512), block(0, 2, 512), block(3, 8, 512)};
  intervals[0].release = 4;
  intervals[1].release = 7;
  PackingEffort effort;
  ASSERT_TRUE(pack_over_transfers(intervals, kStarts, 1024, PackingOrder::kBegin, effort));
  EXPECT_EQ(intervals[2].offset, intervals[0].offset);
}

TEST(PackingOverTransfers, GivesUpWhereEvenResidenceFindsNoRoom) {
  std::vector<Interval> intervals = {block(0, 4, 512), block(2, 6, 512)};
  PackingEffort effort;
  EXPECT_FALSE(pack_over_transfers(intervals, kStarts, 1000, PackingOrder::kSize, effort));
}

TEST(PackingEffort, IsSpentAndKeepsWhatItIsToldTo) {
  PackingEffort effort{.looks = 100};
  EXPECT_FALSE(effort.spend(10, 1, 2));
  EXPECT_TRUE(effort.spend(10, 1, 1));
  EXPECT_TRUE(effort.spend(10, 1));
  EXPECT_FALSE(effort.spend(10, 1));
}

// The block of the ops 2 and 3 needs all but one of four, and a block of one lies at the bottom: one of them moves.
TEST(Ejection, TakesThePlaceOfWhatIsInTheWay) {
  std::vector<Interval> intervals = {block(0, 4, 1), block(0, 2, 2), block(4, 8, 3), block(2, 4, 3)};
  intervals[1].offset = 2;
  intervals[3].offset = 2;
  std::uint64_t looks = 1000;
  ASSERT_TRUE(Ejection(intervals, kOps).fit(intervals, 4, looks, Ejection::From::kWhereTheyAre));
  expect_disjoint(intervals);
  EXPECT_LE(top_of(intervals), 4u);
  EXPECT_LT(looks, 1000u);
}

// The block below is charged until op 2 and copied until 4. A page-in may come there at 3, a birth goes elsewhere.
TEST(Ejection, KeepsBirthsAwayFromCopies) {
  for (const Fill fill : {Fill::kPageIn, Fill::kBorn}) {
    std::vector<Interval> intervals = {block(0, 2, 2), block(3, 5, 2)};
    intervals[0].copied = 4;
    intervals[1].fill = fill;
    intervals[1].offset = 10;
    std::uint64_t looks = 1000;
    ASSERT_TRUE(Ejection(intervals, kOps).fit(intervals, 4, looks, Ejection::From::kWhereTheyAre));
    EXPECT_EQ(intervals[1].offset, fill == Fill::kBorn ? 2u : 0u);
  }
}

TEST(Ejection, MayBeginWithNothingPlacedButWhatIsFixed) {
  std::vector<Interval> intervals = {block(0, 4, 1), block(0, 4, 2), block(0, 4, 3)};
  for (Interval& interval : intervals) interval.offset = 3;
  intervals[1].fixed = true;
  std::uint64_t looks = 1000;
  ASSERT_TRUE(Ejection(intervals, kOps).fit(intervals, 6, looks, Ejection::From::kNowhere));
  EXPECT_EQ(intervals[1].offset, 3u);
  EXPECT_EQ(intervals[2].offset, 0u) << "the largest first";
  EXPECT_EQ(intervals[0].offset, 5u);
}

TEST(Ejection, LeavesAllWhereItWasWhenItFails) {
  std::vector<Interval> intervals = {block(0, 4, 1), block(0, 2, 2), block(1, 3, 3)};
  intervals[1].offset = 1;
  intervals[2].offset = 3;
  std::uint64_t looks = 1000;
  EXPECT_FALSE(Ejection(intervals, kOps).fit(intervals, 5, looks, Ejection::From::kWhereTheyAre)) << "six are live";
  EXPECT_EQ(intervals[2].offset, 3u);
  EXPECT_LT(looks, 3u);
}

TEST(Ejection, NeverMovesWhatIsFixedNorLetsTwoOverlap) {
  int fitted = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Interval> intervals = random_intervals(seed);
    intervals.front().fixed = true;
    PackingEffort effort{.ejection = false};
    const std::uint64_t top = pack(intervals, kStarts, 0, effort);
    const std::uint64_t most = most_taken(intervals, kOps);
    ASSERT_EQ(most, most_live(intervals));
    const std::uint64_t offset = intervals.front().offset;
    std::uint64_t looks = 20'000;
    fitted +=
        top > most && Ejection(intervals, kOps).fit(intervals, most, looks, Ejection::From::kWhereTheyAre) ? 1 : 0;
    EXPECT_EQ(intervals.front().offset, offset);
    expect_disjoint(intervals);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(fitted, 5);
}

TEST(PlacedBlocks, FindsATightestGapAsAMapOfTheBytesDoes) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<Interval> intervals = random_intervals(seed);
    PlacedBlocks placed(kStarts);
    std::vector<Interval> so_far;
    for (Interval interval : intervals) {
      interval.offset = placed.find(interval, Fit::kTightest);
      for (const Interval& other : so_far) {
        bool together = false;
        for (std::int64_t op = 0; op < kOps; ++op) together |= is_there(interval, op) && is_there(other, op);
        if (!together) continue;
        ASSERT_TRUE(interval.offset + interval.bytes <= other.offset || other.offset + other.bytes <= interval.offset);
      }
      placed.add(interval, interval.offset);
      so_far.push_back(interval);
    }
  }
}

// A block of 20 MiB serves two of 9 MiB one after the other, and one of 12 MiB has a segment of its own.
TEST(CachingModel, ReservesWhatTheAllocatorWould) {
  const auto row = [](std::uint32_t id, std::uint64_t bytes, std::uint32_t begin, std::uint32_t end) {
    return Row{.storage = StorageId{id}, .bytes = base::Bytes(bytes), .begin = begin, .need = begin, .end = end};
  };
  const std::uint64_t mib = 1 << 20;
  Plan plan = {.ops = 4, .rows = {row(0, 9 * mib, 0, 1), row(1, 9 * mib, 1, 2)}};
  EXPECT_EQ(cached_for(plan).count(), 20 * mib);
  plan.rows.push_back(row(2, 11 * mib, 2, 3));
  EXPECT_EQ(cached_for(plan).count(), 20 * mib) << "the freed segment is one block again";
  plan.rows.push_back(row(3, 12 * mib + 1, 2, 3));
  EXPECT_EQ(cached_for(plan).count(), (20 + 14) * mib);
  plan.rows.push_back(row(4, 512, 3, 4));
  EXPECT_EQ(cached_for(plan).count(), (20 + 14 + 2) * mib) << "small ones have a pool of their own";
}

TEST(PlacedBlocks, ForgetsOnlyWhatHasEnded) {
  PlacedBlocks placed(kStarts);
  placed.add(block(0, 4, 512), 0);
  placed.add(block(2, 8, 512), 512);
  placed.add(block(38, 45, 512), 1024);
  placed.retire(4);
  EXPECT_EQ(placed.find(block(3, 6, 512), Fit::kTightest), 0u);
  EXPECT_EQ(placed.find(block(3, 6, 1024), Fit::kTightest), 1536u);
}

}  // namespace
}  // namespace tensorpager::planning
