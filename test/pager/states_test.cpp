// The table of a block's states: what it allows, what is charged, and that docs/architecture.md says the same.
#include "tensorpager/pager/states.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tensorpager/pager/lru_policy.h"

namespace tensorpager::pager {
namespace {

using namespace base;

TEST(Transitions, AreThoseOfTheArchitecturePage) {
  std::ifstream page(TENSORPAGER_TEST_DATA "/../../docs/architecture.md");
  std::stringstream text;
  text << page.rdbuf();
  std::ostringstream table;
  table << "| from | to | when |\n|---|---|---|\n";
  for (const auto& [from, to, when] : transitions())
    table << "| " << to_string(from) << " | " << to_string(to) << " | " << when << " |\n";
  table << "\n";
  EXPECT_NE(text.str().find(table.str()), std::string::npos) << "the page should have exactly this:\n" << table.str();
}

TEST(Transitions, LeadOutOfMemoryOnlyThroughATransferAndNeverBackFromDeath) {
  EXPECT_FALSE(may_become(Residence::kResident, Residence::kBelow));
  EXPECT_FALSE(may_become(Residence::kBelow, Residence::kResident));
  for (const Transition& one : transitions()) EXPECT_NE(one.from, Residence::kDead);
}

class BlockTableTest : public testing::Test {
 protected:
  BlockTableTest() { block_.size = block_.charged = 64_KiB; }

  void leave() {
    block_.word = kAbsent;
    table_.change(block_, Residence::kLeaving);
  }

  BlockTable table_{std::make_unique<LruPolicy>()};
  Block block_;
};

TEST_F(BlockTableTest, ChargesABlockUntilItIsBelowAndFromTheSubmissionOfItsPageIn) {
  table_.add_resident(block_);
  EXPECT_EQ(table_.ledger().resident(), 64_KiB);
  leave();
  EXPECT_EQ(table_.ledger().resident(), 64_KiB);
  table_.change(block_, Residence::kBelow);
  EXPECT_EQ(table_.ledger().resident(), 0_B);
  EXPECT_EQ(table_.ledger().live(), 64_KiB);
  table_.change(block_, Residence::kArriving);
  EXPECT_EQ(table_.ledger().resident(), 64_KiB);
  table_.change(block_, Residence::kResident);
  table_.change(block_, Residence::kDead);
  EXPECT_EQ(table_.ledger().resident(), 0_B);
  EXPECT_EQ(table_.ledger().live(), 0_B);
}

TEST_F(BlockTableTest, OffersOnlyResidentBlocksForEviction) {
  table_.add_resident(block_);
  EXPECT_EQ(table_.choose_victim(), &block_);
  leave();
  EXPECT_EQ(table_.choose_victim(), nullptr);
  EXPECT_EQ(table_.absent(), std::vector<Block*>{&block_});
  table_.change(block_, Residence::kResident);
  EXPECT_EQ(table_.choose_victim(), &block_);
  EXPECT_TRUE(table_.absent().empty());
}

TEST_F(BlockTableTest, LetsABlockBePinnedOnlyOnceItIsResident) {
  table_.add_resident(block_);
  leave();
  table_.change(block_, Residence::kBelow);
  table_.change(block_, Residence::kArriving);
  EXPECT_TRUE(block_.is_absent());
  table_.change(block_, Residence::kResident, kClean);
  EXPECT_FALSE(block_.is_absent());
  EXPECT_TRUE(block_.is_clean());
}

TEST_F(BlockTableTest, HandsTheChargeOfABlockThatIsElsewhereToItsOrphan) {
  table_.add_resident(block_);
  leave();
  table_.change(block_, Residence::kBelow);
  Block orphan;
  orphan.charged = block_.charged;
  table_.add_orphan(orphan);
  EXPECT_EQ(table_.ledger().resident(), 64_KiB);
  EXPECT_EQ(table_.ledger().live(), 64_KiB) << "the program holds it once";
  table_.change(orphan, Residence::kDead);
  EXPECT_EQ(table_.ledger().resident(), 0_B);
  EXPECT_EQ(table_.ledger().live(), 64_KiB);
}

TEST(BlockTableDeathTest, EndsTheProcessAtATransitionThatTheTableLacks) {
  BlockTable table(std::make_unique<LruPolicy>());
  Block block;
  table.add_resident(block);
  EXPECT_DEATH(table.change(block, Residence::kArriving), "may_become");
  EXPECT_DEATH(table.change(block, Residence::kLeaving), "is_absent") << "ops could still pin it";
}

}  // namespace
}  // namespace tensorpager::pager
