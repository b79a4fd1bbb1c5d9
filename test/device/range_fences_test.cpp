#include "tensorpager/device/range_fences.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../random_cases.h"

namespace tensorpager::device {
namespace {

Fence page_outs_to(std::uint64_t number) { return Ticket{Queue::kPageOuts, number}; }
Fence page_ins_to(std::uint64_t number) { return Ticket{Queue::kPageIns, number}; }

TEST(RangeFences, OfBytesThatNobodyGaveBackAreEmpty) {
  RangeFences fences;
  EXPECT_TRUE(fences.over(0, 100).is_empty());
  fences.set(10, 20, page_outs_to(1));
  EXPECT_TRUE(fences.over(0, 10).is_empty());
  EXPECT_TRUE(fences.over(20, 30).is_empty());
  EXPECT_EQ(fences.over(19, 20), page_outs_to(1));
}

TEST(RangeFences, OfARangeAreThoseOfAllItsBytes) {
  RangeFences fences;
  fences.set(0, 10, page_outs_to(1));
  fences.set(20, 30, page_ins_to(2));
  EXPECT_EQ(fences.over(5, 25), page_outs_to(1) | page_ins_to(2));
  EXPECT_EQ(fences.over(0, 100), page_outs_to(1) | page_ins_to(2));
}

TEST(RangeFences, TheLastUserOfAByteCounts) {
  RangeFences fences;
  fences.set(0, 30, page_outs_to(1));
  fences.set(10, 20, page_ins_to(2));
  EXPECT_EQ(fences.over(12, 18), page_ins_to(2));
  EXPECT_EQ(fences.over(0, 10), page_outs_to(1));
  EXPECT_EQ(fences.over(20, 30), page_outs_to(1));
  fences.set(0, 30, {});
  EXPECT_EQ(fences.size(), 0u);
}

TEST(RangeFences, AreWhatATableOfAllBytesSays) {
  constexpr std::uint64_t kBytes = 64;
  for (unsigned seed = 1; seed <= random_cases(50, 20); ++seed) {
    std::mt19937 random(seed);
    std::vector<Fence> table(kBytes);
    RangeFences fences;
    for (std::uint64_t step = 1; step <= 200; ++step) {
      const std::uint64_t a = random() % (kBytes + 1), b = random() % (kBytes + 1);
      const std::uint64_t begin = std::min(a, b), end = std::max(a, b);
      const Fence fence = random() % 5 == 0 ? Fence() : random() % 2 == 0 ? page_outs_to(step) : page_ins_to(step);
      if (random() % 2 == 0) {
        fences.set(begin, end, fence);
        std::fill(table.begin() + static_cast<std::ptrdiff_t>(begin), table.begin() + static_cast<std::ptrdiff_t>(end),
                  fence);
      }
      Fence expected;
      for (std::uint64_t i = begin; i < end; ++i) expected |= table[i];
      ASSERT_EQ(fences.over(begin, end), expected) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace tensorpager::device
