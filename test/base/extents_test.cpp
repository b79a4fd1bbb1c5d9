#include "tensorpager/base/extents.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tensorpager::base {
namespace {

//  0   4   8   12  16  20K
//  | a | . | b | .   . | c |     gaps of one and of two pages
TEST(Extents, TakesTheSmallestGapThatFits) {
  Extents extents(1_MiB, 4_KiB);
  ASSERT_EQ(extents.take(4_KiB), 0u);
  const auto small = extents.take(4_KiB);
  ASSERT_EQ(extents.take(4_KiB), 8u << 10);
  const auto large = extents.take(8_KiB);
  ASSERT_EQ(extents.take(4_KiB), 20u << 10);
  extents.give_back(*large, 8_KiB);
  extents.give_back(*small, 4_KiB);
  EXPECT_EQ(extents.gaps(), 2u);
  EXPECT_EQ(extents.take(8_KiB), *large);
  EXPECT_EQ(extents.take(4_KiB), *small);
}

TEST(Extents, TakesTheLowestOfEqualGaps) {
  Extents extents(1_MiB, 4_KiB);
  for (int i = 0; i < 6; ++i) extents.take(4_KiB);
  extents.give_back(12 << 10, 4_KiB);
  extents.give_back(4 << 10, 4_KiB);
  EXPECT_EQ(extents.take(4_KiB), 4u << 10);
}

TEST(Extents, JoinsWhatIsGivenBackToBothNeighbours) {
  Extents extents(1_MiB, 4_KiB);
  for (int i = 0; i < 4; ++i) extents.take(4_KiB);
  extents.give_back(0, 4_KiB);
  extents.give_back(8 << 10, 4_KiB);
  EXPECT_EQ(extents.gaps(), 2u);
  extents.give_back(4 << 10, 4_KiB);
  EXPECT_EQ(extents.gaps(), 1u);
  EXPECT_EQ(extents.take(12_KiB), 0u);
}

TEST(Extents, LowersTheTopToTheLastByteInUse) {
  Extents extents(1_MiB, 4_KiB);
  for (int i = 0; i < 4; ++i) extents.take(4_KiB);
  extents.give_back(8 << 10, 4_KiB);
  EXPECT_EQ(extents.top(), 16u << 10);
  extents.give_back(12 << 10, 4_KiB);
  EXPECT_EQ(extents.top(), 8u << 10);
  EXPECT_EQ(extents.gaps(), 0u);
}

TEST(Extents, RoundsSizesUpToTheGranule) {
  Extents extents(1_MiB, 4_KiB);
  EXPECT_EQ(extents.take(1_B), 0u);
  EXPECT_EQ(extents.take(1_B), 4u << 10);
  EXPECT_EQ(extents.taken(), 8_KiB);
  extents.give_back(0, 1_B);
  EXPECT_EQ(extents.taken(), 4_KiB);
}

TEST(Extents, LeavesTheRoomBeforeAnAlignedPieceUsable) {
  Extents extents(8_MiB, 4_KiB);
  extents.take(4_KiB);
  EXPECT_EQ(extents.take(2_MiB, 2_MiB), 2u << 20);
  EXPECT_EQ(extents.take(4_KiB), 4u << 10);
}

TEST(Extents, RefusesWhatDoesNotFitAndStaysAsItWas) {
  Extents extents(16_KiB, 4_KiB);
  extents.take(8_KiB);
  EXPECT_EQ(extents.take(12_KiB), std::nullopt);
  EXPECT_EQ(extents.take(4_KiB, 16_KiB), std::nullopt);
  EXPECT_EQ(extents.take(Bytes(~std::uint64_t{0})), std::nullopt);
  EXPECT_EQ(extents.take(4_KiB, Bytes(std::uint64_t{1} << 63)), std::nullopt);
  EXPECT_EQ(extents.taken(), 8_KiB);
  EXPECT_EQ(extents.top(), 8u << 10);
  EXPECT_EQ(extents.take(8_KiB), 8u << 10);
}

TEST(ExtentsDeathTest, GivingBackWhatIsFreeFailsACheck) {
  Extents extents(1_MiB, 4_KiB);
  for (int i = 0; i < 3; ++i) extents.take(4_KiB);
  extents.give_back(4 << 10, 4_KiB);
  EXPECT_DEATH(extents.give_back(4 << 10, 4_KiB), "internal error");
  EXPECT_DEATH(extents.give_back(0, 8_KiB), "internal error");
  EXPECT_DEATH(extents.give_back(4 << 10, 8_KiB), "internal error");
  EXPECT_DEATH(extents.give_back(12 << 10, 4_KiB), "internal error");
}

/// The same promises, kept by looking at every granule.
class BitmapModel {
 public:
  explicit BitmapModel(std::size_t granules) : used_(granules) {}

  std::optional<std::size_t> take(std::size_t size, std::size_t alignment) {
    std::optional<std::size_t> best;
    std::size_t best_size = used_.size() + 1;
    for (const auto& [begin, end] : gaps()) {
      const std::size_t offset = (begin + alignment - 1) / alignment * alignment;
      if (offset + size > end || end - begin >= best_size) continue;
      best = offset;
      best_size = end - begin;
    }
    if (!best) best = (top() + alignment - 1) / alignment * alignment;
    if (*best + size > used_.size()) return std::nullopt;
    set(*best, size, true);
    return best;
  }

  void give_back(std::size_t offset, std::size_t size) { set(offset, size, false); }

  std::vector<std::pair<std::size_t, std::size_t>> gaps() const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t begin = 0; begin < top(); ++begin) {
      if (used_[begin]) continue;
      std::size_t end = begin;
      while (!used_[end]) ++end;
      found.emplace_back(begin, end);
      begin = end;
    }
    return found;
  }

  std::size_t top() const {
    std::size_t top = used_.size();
    while (top > 0 && !used_[top - 1]) --top;
    return top;
  }

  std::size_t taken() const { return static_cast<std::size_t>(std::count(used_.begin(), used_.end(), true)); }

 private:
  void set(std::size_t offset, std::size_t size, bool used) {
    for (std::size_t i = offset; i < offset + size; ++i) {
      ASSERT_NE(used_[i], used) << "granule " << i;
      used_[i] = used;
    }
  }

  std::vector<bool> used_;
};

class ExtentsProperty : public testing::TestWithParam<unsigned> {};

TEST_P(ExtentsProperty, AnswersAsABitmapDoes) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  constexpr std::size_t kGranules = 256;
  constexpr std::size_t kGranule = 512;
  std::mt19937 random(GetParam());
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  Extents extents(Bytes(kGranules * kGranule), Bytes(kGranule));
  BitmapModel model(kGranules);
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  std::size_t refusals = 0;

  for (int step = 0; step < 2000; ++step) {
    // Long phases of growing and of shrinking: full and empty lines are both reached.
    const bool grows = below(10) < (step / 200 % 2 == 0 ? 7 : 3);
    if (grows || pieces.empty()) {
      const std::size_t size = 1 + below(12);
      const std::size_t alignment = std::size_t{1} << (below(3) == 0 ? below(5) : 0);
      const auto expected = model.take(size, alignment);
      const auto offset = extents.take(Bytes(size * kGranule - below(kGranule)), Bytes(alignment * kGranule));
      ASSERT_EQ(offset.has_value(), expected.has_value()) << "step " << step;
      if (expected) {
        ASSERT_EQ(*offset, *expected * kGranule) << "step " << step;
        pieces.emplace_back(*expected, size);
      } else {
        ++refusals;
      }
    } else {
      std::swap(pieces[below(pieces.size())], pieces.back());
      const auto [offset, size] = pieces.back();
      pieces.pop_back();
      model.give_back(offset, size);
      extents.give_back(offset * kGranule, Bytes(size * kGranule));
    }
    ASSERT_EQ(extents.taken(), Bytes(model.taken() * kGranule)) << "step " << step;
    ASSERT_EQ(extents.top(), model.top() * kGranule) << "step " << step;
    ASSERT_EQ(extents.gaps(), model.gaps().size()) << "step " << step;
  }
  EXPECT_GT(refusals, 0u) << "the line was never full";

  for (const auto& [offset, size] : pieces) extents.give_back(offset * kGranule, Bytes(size * kGranule));
  EXPECT_EQ(extents.taken(), 0_B);
  EXPECT_EQ(extents.top(), 0u);
  EXPECT_EQ(extents.gaps(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seed, ExtentsProperty, testing::Range(1u, 21u), testing::PrintToStringParamName());

}  // namespace
}  // namespace tensorpager::base
