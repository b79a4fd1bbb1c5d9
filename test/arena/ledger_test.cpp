#include "tensorpager/arena/ledger.h"

#include <gtest/gtest.h>

namespace tensorpager::arena {
namespace {

using namespace base;

TEST(Ledger, ChargesWhatIsResidentAndWhatIsPooled) {
  Ledger ledger(100_MiB);
  ledger.born(10_MiB);
  ledger.born_in_slab(1_MiB);
  ledger.set_pooled(4_MiB);
  EXPECT_EQ(ledger.resident(), 11_MiB);
  EXPECT_EQ(ledger.slabs(), 1_MiB);
  EXPECT_EQ(ledger.live(), 11_MiB);
  EXPECT_EQ(ledger.charged(), 15_MiB);
  ledger.died(10_MiB, true);
  EXPECT_EQ(ledger.charged(), 5_MiB);
  EXPECT_EQ(ledger.live(), 1_MiB);
}

TEST(Ledger, NeedIsThePeakHadNothingBeenEvicted) {
  Ledger ledger(20_MiB);
  ledger.born(10_MiB);
  ledger.page_out(10_MiB);
  ledger.born(15_MiB);
  EXPECT_EQ(ledger.live(), 25_MiB);
  EXPECT_EQ(ledger.need(), 25_MiB);
  EXPECT_EQ(ledger.peak(), 15_MiB);
  ledger.died(10_MiB, false);
  ledger.died(15_MiB, true);
  EXPECT_EQ(ledger.live(), 0_B);
  EXPECT_EQ(ledger.resident(), 0_B);
  EXPECT_EQ(ledger.need(), 25_MiB);
  EXPECT_EQ(ledger.over(), 0_B);
}

TEST(Ledger, KeepsThePeakOfPooledPagesToo) {
  Ledger ledger(20_MiB);
  ledger.born(10_MiB);
  ledger.set_pooled(6_MiB);
  ledger.set_pooled(0_B);
  EXPECT_EQ(ledger.peak(), 16_MiB);
}

TEST(Ledger, CountsTheMostByWhichTheBudgetWasExceeded) {
  Ledger ledger(10_MiB);
  ledger.born(10_MiB);
  EXPECT_EQ(ledger.over(), 0_B);
  ledger.page_in(3_MiB);
  ledger.page_out(3_MiB);
  ledger.page_in(1_MiB);
  EXPECT_EQ(ledger.over(), 3_MiB);
}

TEST(Ledger, FitsUpToTheBudgetWhateverIsPooled) {
  Ledger ledger(10_MiB);
  ledger.born(6_MiB);
  ledger.set_pooled(4_MiB);
  EXPECT_TRUE(ledger.fits(4_MiB));
  EXPECT_FALSE(ledger.fits(4_MiB + 4_KiB));
}

TEST(Ledger, LeavesThePoolWhatTheBudgetHasLeft) {
  Ledger ledger(10_MiB);
  ledger.born(6_MiB);
  EXPECT_EQ(ledger.pool_allowance(0_B), 4_MiB);
  EXPECT_EQ(ledger.pool_allowance(3_MiB), 1_MiB);
  EXPECT_EQ(ledger.pool_allowance(4_MiB), 0_B);
  EXPECT_EQ(ledger.pool_allowance(5_MiB), 0_B) << "an access outside an op, while all is pinned";
}

TEST(Ledger, KeepsThePoolNearTheNeedUnderALargeBudget) {
  Ledger ledger(kUnlimited);
  EXPECT_EQ(ledger.pool_allowance(0_B), 64_MiB);
  ledger.born(400_MiB);
  EXPECT_EQ(ledger.pool_allowance(0_B), 164_MiB);
  EXPECT_EQ(ledger.pool_allowance(400_MiB), 264_MiB);
  ledger.died(400_MiB, true);
  EXPECT_EQ(ledger.pool_allowance(0_B), 564_MiB) << "the next step needs as much again";
}

TEST(Ledger, CountsFromTheNewBudgetOn) {
  Ledger ledger(kUnlimited);
  ledger.born(10_MiB);
  ledger.died(8_MiB, true);
  ledger.set_budget(1_MiB);
  EXPECT_EQ(ledger.budget(), 1_MiB);
  EXPECT_EQ(ledger.peak(), 2_MiB);
  EXPECT_EQ(ledger.need(), 2_MiB);
  EXPECT_EQ(ledger.over(), 0_B);
}

TEST(Ledger, KeepsItsCountsWhenTheBudgetIsLifted) {
  Ledger ledger(10_MiB);
  ledger.born(12_MiB);
  ledger.lift_budget();
  ledger.page_in(50_MiB);
  EXPECT_EQ(ledger.over(), 2_MiB);
  EXPECT_EQ(ledger.peak(), 62_MiB);
  EXPECT_TRUE(ledger.fits(1_TiB));
}

}  // namespace
}  // namespace tensorpager::arena
