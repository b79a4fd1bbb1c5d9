#include "tensorpager/follow/standing.h"

#include <gtest/gtest.h>

namespace tensorpager::follow {
namespace {

using enum Standing;

TEST(Standing, AWindowThatBeginsWhereBlocksAreAsPlannedIsWhole) {
  EXPECT_EQ(window_begins(kWhole), kWhole);
  EXPECT_EQ(window_begins(kPartial), kWhole);
}

TEST(Standing, WhatWasDisturbedIsPutRightWhenAWindowBegins) {
  EXPECT_TRUE(is_elsewhere(window_begins(kDisturbed)));
  EXPECT_TRUE(is_whole(window_begins(kDisturbed)));
  EXPECT_EQ(put_right(window_begins(kDisturbed)), kWhole);
}

TEST(Standing, APlanThatIsEnteredAmidAWindowDoesNotMakeItWhole) {
  EXPECT_EQ(put_right(kElsewhere), kPartial);
  EXPECT_EQ(put_right(kContinued), kWhole) << "another plan has followed it";
  EXPECT_EQ(put_right(kDisturbed), kPartial);
}

TEST(Standing, OtherSizesNeedNothingPutRight) {
  EXPECT_EQ(resized(kWhole), kPartial);
  EXPECT_EQ(resized(kPartial), kPartial);
  EXPECT_EQ(resized(kDisturbed), kDisturbed);
  EXPECT_EQ(resized(kElsewhere), kElsewhere);
  EXPECT_EQ(resized(kContinued), kElsewhere);
}

TEST(Standing, NoWindowIsWholeOnceItIsDisturbed) {
  for (const Standing standing : {kWhole, kPartial, kDisturbed}) EXPECT_EQ(disturbed(standing), kDisturbed);
  for (const Standing standing : {kElsewhere, kContinued}) EXPECT_EQ(disturbed(standing), kElsewhere);
}

}  // namespace
}  // namespace tensorpager::follow
