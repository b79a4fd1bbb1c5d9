#include "tensorpager/pager/passed_on_pages.h"

#include <gtest/gtest.h>

#include <array>

namespace tensorpager::pager {
namespace {

using namespace base;
using arena::Piece;

class PassedOnPagesTest : public testing::Test {
 protected:
  /// A block whose pages lie at this many huge pages from the origin.
  Block& add(std::uint64_t at, Bytes charged) {
    Block& block = blocks_[added_++];
    block.charged = charged;
    block.copy = {device::Queue::kPageOuts, added_};
    pages_.add(block, origin() + at * kHugePage.count());
    return block;
  }
  static std::byte* origin() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30); }
  static Bytes offset(const Piece& piece) { return Bytes(static_cast<std::uint64_t>(piece.at - origin())); }

  PassedOnPages pages_;
  std::array<Block, 16> blocks_;
  std::uint64_t added_ = 0;
};

TEST_F(PassedOnPagesTest, TakesTheOldestFirstAndWaitsForTheNewestThatItTakes) {
  add(0, 64_KiB);
  add(1, 64_KiB);
  add(2, 64_KiB);
  const PassedOnPages::Taken taken = pages_.take(96_KiB);
  EXPECT_EQ(taken.bytes, 96_KiB);
  ASSERT_EQ(taken.pieces.size(), 2u);
  EXPECT_EQ(taken.pieces[0].bytes, 64_KiB);
  EXPECT_EQ(taken.after.up_to(device::Queue::kPageOuts), 2u);
  EXPECT_EQ(pages_.bytes(), 96_KiB);
}

TEST_F(PassedOnPagesTest, GivesOutNoPageTwice) {
  add(0, 64_KiB);
  const PassedOnPages::Taken first = pages_.take(16_KiB), second = pages_.take(64_KiB);
  ASSERT_EQ(first.pieces.size(), 1u);
  ASSERT_EQ(second.pieces.size(), 1u);
  EXPECT_EQ(second.bytes, 48_KiB);
  EXPECT_TRUE(second.pieces[0].at + second.pieces[0].bytes.count() <= first.pieces[0].at ||
              first.pieces[0].at + first.pieces[0].bytes.count() <= second.pieces[0].at);
  EXPECT_EQ(pages_.bytes(), 0_B);
}

TEST_F(PassedOnPagesTest, SaysBeforeWhatItWouldTake) {
  add(0, 64_KiB);
  EXPECT_EQ(pages_.takeable(16_KiB), 16_KiB);
  EXPECT_EQ(pages_.takeable(1_MiB), 64_KiB);
  EXPECT_EQ(pages_.bytes(), 64_KiB);
}

TEST_F(PassedOnPagesTest, LeavesWhatBeginsWithAHugePage) {
  const Block& block = add(0, 8_MiB + 64_KiB);
  const PassedOnPages::Taken taken = pages_.take(2_MiB + 16_KiB);
  ASSERT_EQ(taken.pieces.size(), 2u);
  EXPECT_EQ(offset(taken.pieces[0]), 0_B);
  EXPECT_EQ(taken.pieces[0].bytes, 2_MiB);
  EXPECT_EQ(taken.pieces[1].bytes, 16_KiB);
  const std::vector<Piece> left = pages_.remove(block);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(offset(left[0]), 2_MiB);
  EXPECT_EQ(left[0].bytes, 6_MiB + 48_KiB);
}

TEST_F(PassedOnPagesTest, TakesNoMoreThanAFewPieces) {
  for (std::uint64_t i = 0; i < blocks_.size(); ++i) add(i, 4_KiB);
  const PassedOnPages::Taken taken = pages_.take(64_KiB);
  EXPECT_EQ(taken.pieces.size(), 8u);
  EXPECT_EQ(taken.bytes, 32_KiB);
  EXPECT_EQ(taken.after.up_to(device::Queue::kPageOuts), 8u);
}

TEST_F(PassedOnPagesTest, HasBackWhatItsBlockHadWhileThatIsThere) {
  const Block& block = add(0, 64_KiB);
  const PassedOnPages::Taken taken = pages_.take(16_KiB);
  EXPECT_TRUE(pages_.give_back(taken.pieces[0]));
  EXPECT_EQ(pages_.bytes(), 64_KiB);
  Bytes left;
  for (const Piece& piece : pages_.remove(block)) left += piece.bytes;
  EXPECT_EQ(left, 64_KiB);
  EXPECT_EQ(pages_.bytes(), 0_B);
  EXPECT_FALSE(pages_.give_back(taken.pieces[0]));
}

}  // namespace
}  // namespace tensorpager::pager
