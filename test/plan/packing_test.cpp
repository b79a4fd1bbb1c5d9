#include "tensorpager/plan/packing.h"

#include <gtest/gtest.h>

#include <random>

#include "tensorpager/plan/occupancy.h"
#include "tensorpager/plan/online_packing.h"
#include "tensorpager/plan/segment_tree.h"

namespace tensorpager::plan {
namespace {

constexpr std::uint32_t kOps = 40;

Interval block(std::int64_t begin, std::int64_t release, std::uint64_t bytes) {
  return {.bytes = bytes, .begin = begin, .need = begin, .end = release, .release = release};
}

bool is_there(const Interval& interval, std::int64_t op) {
  return (interval.begin <= op && op < interval.release) || op + kOps < interval.release;
}

std::uint64_t most_live(const std::vector<Interval>& intervals) {
  std::uint64_t most = 0;
  for (std::int64_t op = 0; op < kOps; ++op) {
    std::uint64_t live = 0;
    for (const Interval& interval : intervals) live += is_there(interval, op) ? interval.bytes : 0;
    most = std::max(most, live);
  }
  return most;
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

std::vector<Interval> random_intervals(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals;
  for (unsigned i = 0; i < 2 + random() % 40; ++i) {
    const std::int64_t begin = random() % kOps;
    const std::int64_t length = 1 + (random() % 4 == 0 ? random() % kOps : random() % 6);
    intervals.push_back(block(begin, begin + length, 512 * (1 + random() % 20)));
  }
  return intervals;
}

// 4 |        ccc
// 3 |  bbbbbb          Best fit by begin puts c above b; by size all lies in 4.
// 1 |  a     cc...
TEST(Packing, FillsASpaceToTheByteWhereAnOrderDoes) {
  std::vector<Interval> intervals = {block(0, 2, 1), block(0, 6, 3), block(2, 6, 1), block(6, 9, 4)};
  EXPECT_EQ(pack(intervals, kOps, 4, {}), 4u);
  expect_disjoint(intervals);
}

TEST(Packing, KeepsOneOffsetOverTheWindowsEnd) {
  std::vector<Interval> intervals = {block(35, 45, 512), block(0, 40, 512), block(10, 30, 512)};
  EXPECT_EQ(pack(intervals, kOps, 1024, {}), 1024u);
  expect_disjoint(intervals);
}

TEST(Packing, NeverLetsTwoBlocksOverlap) {
  double waste = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Interval> intervals = random_intervals(seed);
    const std::uint64_t live = most_live(intervals);
    const std::uint64_t top = pack(intervals, kOps, live, {});
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

TEST(Occupancy, AnswersAsABitmapDoes) {
  std::mt19937 random(3);
  Occupancy occupancy(kOps);
  std::vector<std::vector<bool>> bitmap(kOps, std::vector<bool>(64));
  for (int step = 0; step < 300; ++step) {
    const auto begin = static_cast<std::uint32_t>(random() % kOps);
    const auto end = begin + static_cast<std::uint32_t>(random() % (kOps - begin + 1));
    const std::uint64_t low = random() % 64;
    const std::uint64_t high = std::min<std::uint64_t>(64, low + 1 + random() % 4);
    if (step % 3 == 0) {
      occupancy.take(begin, end, {low, high});
      for (std::uint32_t op = begin; op < end; ++op)
        std::fill(bitmap[op].begin() + static_cast<int>(low), bitmap[op].begin() + static_cast<int>(high), true);
    }
    std::vector<Range> taken;
    occupancy.collect(begin, end, taken);
    for (std::uint64_t byte = 0; byte < 64; ++byte) {
      bool expected = false;
      for (std::uint32_t op = begin; op < end; ++op) expected |= bitmap[op][byte];
      const bool found = std::ranges::any_of(taken, [&](const Range& r) { return r.begin <= byte && byte < r.end; });
      ASSERT_EQ(found, expected) << "step " << step;
    }
  }
  occupancy.clear();
  std::vector<Range> all;
  occupancy.collect(0, kOps, all);
  EXPECT_TRUE(all.empty());
}

TEST(SegmentTree, AnswersAsAnArrayDoes) {
  std::mt19937 random(5);
  SegmentTree tree(37);
  std::vector<std::int64_t> array(37);
  for (int step = 0; step < 2000; ++step) {
    const std::size_t begin = random() % 37;
    const std::size_t end = begin + random() % (38 - begin);
    const auto value = static_cast<std::int64_t>(random() % 21) - 10;
    if (step % 2 == 0) {
      tree.add(begin, end, value);
      for (std::size_t i = begin; i < end; ++i) array[i] += value;
    }
    std::optional<std::size_t> expected;
    for (std::size_t i = begin; i < end; ++i) {
      if (array[i] > value) expected = i;
    }
    ASSERT_EQ(tree.find_last_above(begin, end, value), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace tensorpager::plan
