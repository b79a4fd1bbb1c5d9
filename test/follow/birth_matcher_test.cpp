#include "tensorpager/follow/birth_matcher.h"

#include <gtest/gtest.h>

#include <optional>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;

constexpr StorageId kFirst{0}, kSecond{1}, kThird{2};
constexpr Bytes kSize = 64_KiB, kOtherSize = 128_KiB;

/// An op makes two storages of one size and one of another.
Agenda three_births() {
  return Agenda({.storages = {{.bytes = kSize}, {.bytes = kSize}, {.bytes = kOtherSize}},
                 .ops = {{.name = "make", .births = {kFirst, kSecond, kThird}}}},
                Plan{.budget = 1_MiB, .ops = 1});
}

class BirthMatcherTest : public testing::Test {
 protected:
  std::optional<StorageId> make(Block& block) {
    const auto storage = matcher_.take_next(0, block.size);
    matcher_.created(block);
    return storage;
  }
  bool end() {
    const bool as_planned = matcher_.bind_births(0, map_);
    matcher_.forget();
    return as_planned;
  }

  SizedBlock one_{kSize}, two_{kSize}, large_{kOtherSize}, scratch_{kSize};
  const Agenda agenda_ = three_births();
  StorageMap map_{agenda_};
  BirthMatcher matcher_{agenda_};
};

TEST_F(BirthMatcherTest, BindsWhatLivesInTheTracesOrder) {
  matcher_.begin_op();
  for (Block* block : {&scratch_, &one_, &two_, &large_}) matcher_.created(*block);
  matcher_.died(scratch_);
  EXPECT_TRUE(end());
  EXPECT_EQ(map_.block_of(kFirst), &one_);
  EXPECT_EQ(map_.block_of(kSecond), &two_);
  EXPECT_EQ(map_.block_of(kThird), &large_);
}

TEST_F(BirthMatcherTest, BindsBySizeWhatIsNotAsManyAsPlanned) {
  matcher_.begin_op();
  matcher_.created(large_);
  matcher_.created(one_);
  EXPECT_FALSE(end());
  EXPECT_EQ(map_.block_of(kThird), &large_);
  EXPECT_EQ(map_.block_of(kFirst), nullptr) << "it came after the last birth";
}

TEST_F(BirthMatcherTest, TellsOtherSizesThanPlanned) {
  matcher_.begin_op();
  for (Block* block : {&one_, &large_, &two_}) matcher_.created(*block);
  EXPECT_FALSE(end());
  EXPECT_EQ(map_.block_of(kSecond), &large_);
}

TEST_F(BirthMatcherTest, ExpectsTheFirstOpenBirthOfTheSizeInTheFirstWindow) {
  matcher_.begin_op();
  EXPECT_EQ(make(large_), kThird);
  EXPECT_EQ(make(one_), kFirst);
  EXPECT_EQ(make(two_), kSecond);
  EXPECT_EQ(make(scratch_), std::nullopt);
}

TEST_F(BirthMatcherTest, ExpectsThePlacesOfTheLastWindowThen) {
  matcher_.begin_op();
  for (Block* block : {&scratch_, &one_, &two_, &large_}) matcher_.created(*block);
  matcher_.died(scratch_);
  end();
  matcher_.begin_op();
  EXPECT_EQ(make(scratch_), std::nullopt) << "a temporary came first";
  EXPECT_EQ(make(one_), kFirst);
  EXPECT_EQ(make(large_), kThird) << "of another size than last time";
  EXPECT_EQ(make(two_), kSecond) << "by its size from here on";
}

TEST_F(BirthMatcherTest, ExpectsThePlacesThatItIsTold) {
  matcher_.expect(0, {3, 1});
  matcher_.expect(0, {0, 2, 3});
  matcher_.expect(0, {1, 2});
  matcher_.begin_op();
  EXPECT_EQ(make(one_), kFirst);
  EXPECT_EQ(make(scratch_), std::nullopt);
  EXPECT_EQ(make(two_), kSecond);
}

TEST_F(BirthMatcherTest, SizesDoNotCountInAnOpThatIsResized) {
  matcher_.begin_op();
  matcher_.note_resized();
  EXPECT_EQ(make(large_), kFirst);
  EXPECT_EQ(make(one_), kSecond);
  EXPECT_TRUE(matcher_.is_resized());
  matcher_.begin_op();
  EXPECT_FALSE(matcher_.is_resized());
}

TEST_F(BirthMatcherTest, CountsWhatIsNotThePlansToo) {
  matcher_.begin_op();
  matcher_.pass_by();
  EXPECT_EQ(matcher_.made(), 1u);
  EXPECT_FALSE(end());
}

}  // namespace
}  // namespace tensorpager::follow
