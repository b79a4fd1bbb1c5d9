// What happens to bytes that are paged out and in, by ops and by plain accesses, over each tier.
#include "pager_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class ResidencyTest : public PagerTest, public testing::WithParamInterface<Tier> {
 protected:
  void start(Bytes budget) { PagerTest::start(budget, GetParam().make()); }
};

TEST_P(ResidencyTest, BytesSurviveEviction) {
  start(8_MiB);
  std::vector<Block*> made;
  for (const Bytes size : {64_KiB, 20_KiB, 5_MiB, 16_KiB, 2_MiB, 3_MiB + 4_KiB, 1_MiB, 4_MiB, Bytes(100'001)})
    made.push_back(&make(size, made.size()));
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_TRUE(holds(*made[i], i)) << "block " << i;
  }
  EXPECT_GT(counts().page_outs, 3u);
  EXPECT_GT(counts().page_ins, 3u);
  EXPECT_EQ(counts().faults, 0u);
}

TEST_P(ResidencyTest, ABlockKeepsItsAddressForLife) {
  start(4_MiB);
  Block& block = make(kBlock, 1);
  const std::byte* data = block.data;
  pager_.page_out_all();
  Block& other = make(3_MiB, 2);
  EXPECT_TRUE(holds(block, 1));
  EXPECT_EQ(block.data, data);
  EXPECT_EQ(pager_.storages().find(data), &block);
  EXPECT_NE(other.data, data);
}

TEST_P(ResidencyTest, DropsACleanBlockWithoutACopy) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.page_out_all();
  for (int round = 1; round <= 3; ++round) {
    EXPECT_TRUE(holds(block, 1));
    EXPECT_TRUE(block.is_clean());
    pager_.page_out_all();
    EXPECT_TRUE(block.is_absent());
    EXPECT_EQ(counts().clean_drops, static_cast<std::uint64_t>(round));
  }
  EXPECT_EQ(counts().page_outs, 1u);
  EXPECT_EQ(counts().page_out_bytes, kBlock.count());
  EXPECT_EQ(counts().page_in_bytes, 3 * kBlock.count());
}

TEST_P(ResidencyTest, CopiesAgainWhatAnOpWrote) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.page_out_all();
  EXPECT_TRUE(holds(block, 1));
  write(block, 2);  // while it is clean
  EXPECT_FALSE(block.is_clean());
  pager_.page_out_all();
  EXPECT_EQ(counts().page_outs, 2u);
  write(block, 3);  // while it is absent
  EXPECT_FALSE(block.is_clean());
  pager_.page_out_all();
  EXPECT_EQ(counts().page_outs, 3u);
  EXPECT_TRUE(holds(block, 3));
  EXPECT_EQ(counts().clean_drops, 0u);
  EXPECT_EQ(counts().write_faults, 0u) << "the op had announced its write";
}

TEST_P(ResidencyTest, NoticesADirectWriteToACleanBlock) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.page_out_all();
  EXPECT_TRUE(holds(block, 1));
  fill(block, 2);
  EXPECT_EQ(counts().write_faults, 1u);
  EXPECT_FALSE(block.is_clean());
  pager_.page_out_all();
  EXPECT_EQ(counts().page_outs, 2u);
  EXPECT_TRUE(holds(block, 2));
}

TEST_P(ResidencyTest, ServesADirectReadOfAnAbsentBlock) {
  start(8_MiB);
  for (const Bytes size : {kBlock, 5_MiB}) {
    Block& block = make(size, 1);
    pager_.page_out_all();
    const std::uint64_t faults = counts().faults;
    EXPECT_TRUE(is_filled(block, 1));
    EXPECT_EQ(counts().faults, faults + 1);
    EXPECT_TRUE(block.is_clean()) << "a read leaves the copy below as good";
  }
}

TEST_P(ResidencyTest, ServesADirectWriteOfAnAbsentBlockAndKeepsTheRest) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  Block& expected = make(kBlock, 1);
  pager_.page_out_all();
  block.data[40'000] = expected.data[40'000] = std::byte{0x5A};
  EXPECT_FALSE(block.is_clean());
  pager_.page_out_all();
  EXPECT_TRUE(std::equal(block.data, block.data + kBlock.count(), expected.data));
  EXPECT_FALSE(is_filled(block, 1));
}

TEST_P(ResidencyTest, ServesAnAccessToTheLastByte) {
  start(1_MiB);
  Block& block = make(Bytes(70'000), 1);
  pager_.page_out_all();
  block.data[69'999] = std::byte{7};
  pager_.page_out_all();
  EXPECT_EQ(block.data[69'999], std::byte{7});
  EXPECT_EQ(counts().faults, 2u);
}

TEST_P(ResidencyTest, HoldsRoomBelowOnlyForAbsentAndCleanBlocks) {
  start(1_MiB);
  Block& first = make(kBlock, 1);
  Block& second = make(20_KiB, 2);
  EXPECT_EQ(counts().spill_bytes, 0u);
  pager_.page_out_all();
  EXPECT_EQ(counts().spill_bytes, (84_KiB).count());
  EXPECT_TRUE(holds(first, 1));
  EXPECT_EQ(counts().spill_bytes, (84_KiB).count());
  write(first, 3);
  EXPECT_EQ(counts().spill_bytes, (20_KiB).count());
  destroy(second);
  EXPECT_EQ(counts().spill_bytes, 0u);
}

TEST_P(ResidencyTest, DestroysBlocksInEveryState) {
  start(1_MiB);
  Block& absent = make(kBlock, 1);
  Block& clean = make(kBlock, 2);
  pager_.page_out_all();
  EXPECT_TRUE(holds(clean, 2));
  Block& resident = make(kBlock, 3);
  for (Block* block : {&absent, &clean, &resident}) destroy(*block);
  EXPECT_EQ(counts().spill_bytes, 0u);
  EXPECT_EQ(counts().live_bytes, 0u);
  // The clean one's pages were read-only; whoever gets them next writes.
  const std::uint64_t write_faults = counts().write_faults;
  for (std::uint64_t i = 0; i < 3; ++i) make(kBlock, i);
  EXPECT_EQ(counts().write_faults, write_faults);
}

TEST_P(ResidencyTest, AtTheStopEverythingIsResidentAndOrdinaryMemory) {
  start(1_MiB);
  std::vector<Block*> made;
  for (std::uint64_t i = 0; i < 32; ++i) made.push_back(&make(kBlock, i));
  EXPECT_TRUE(holds(*made[0], 0));
  pager_.stop();
  EXPECT_EQ(counts().spill_bytes, 0u);
  EXPECT_EQ(counts().resident_bytes, 32 * kBlock.count());
  const Statistics before = counts();
  for (std::uint64_t i = 0; i < 32; ++i) {
    EXPECT_TRUE(is_filled(*made[i], i));
    fill(*made[i], i + 100);
  }
  EXPECT_EQ(counts().faults, before.faults);
  EXPECT_EQ(counts().write_faults, before.write_faults);
}

TEST_P(ResidencyTest, ANewSessionPagesWhatTheLastOneLeft) {
  start(kUnlimited);
  std::vector<Block*> made;
  for (std::uint64_t i = 0; i < 32; ++i) made.push_back(&make(kBlock, i));
  pager_.stop();
  start(1_MiB);
  EXPECT_LE(counts().resident_bytes + counts().pooled_bytes, (1_MiB).count());
  EXPECT_LE(counts().peak_bytes, (1_MiB).count());
  for (std::uint64_t i = 0; i < 32; ++i) EXPECT_TRUE(holds(*made[i], i));
  EXPECT_LE(witness(), 1_MiB);
}

TEST_P(ResidencyTest, WhatTheLastSessionUsedIsOlderThanWhatThisOneUses) {
  start(kUnlimited);
  for (int op = 0; op < 100; ++op) pager_.boundaries().op_begins();
  Block& old = make(kBlock, 1);
  pager_.stop();
  start(room_for(2));
  EXPECT_EQ(counts().ops, 0u);
  pager_.boundaries().op_begins();
  Block& used = make(kBlock, 2);
  make(kBlock, 3);
  EXPECT_TRUE(old.is_absent());
  EXPECT_FALSE(used.is_absent());
  EXPECT_EQ(counts().ops, 1u);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ResidencyTest, testing::ValuesIn(kTiers), name_of);

}  // namespace
}  // namespace tensorpager::pager
