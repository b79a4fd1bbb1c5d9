#include "tensorpager/pager/storages.h"

#include "pager_fixture.h"

namespace tensorpager::pager {
namespace {

class StoragesTest : public PagerTest {
 protected:
  StoragesTest() { start(room_for(4)); }

  Storages& storages_ = pager_.storages();
};

TEST_F(StoragesTest, FindABlockByItsFirstByteOnly) {
  Block& block = make(kBlock, 1);
  EXPECT_EQ(storages_.find(block.data), &block);
  EXPECT_EQ(storages_.find(block.data + kBlock.count() / 2), nullptr);
  std::byte* const data = block.data;
  destroy(block);
  EXPECT_EQ(storages_.find(data), nullptr);
}

TEST_F(StoragesTest, NumberBlocksInTheOrderOfTheirBirths) {
  const Block& first = make(kBlock, 1);
  const Block& second = make(base::Bytes(1), 2);
  EXPECT_EQ(second.number, first.number + 1);
  EXPECT_EQ(second.size, base::Bytes(1));
  EXPECT_EQ(second.charged, base::kPage);
}

TEST_F(StoragesTest, ABlockThatCannotFitLeavesNoRecordAndTheOthersTheirBytes) {
  Block& other = make(kBlock, 1);
  const Statistics before = counts();
  EXPECT_THROW(storages_.create(room_for(5)), base::OverBudget);
  EXPECT_EQ(counts().live_blocks, before.live_blocks);
  EXPECT_EQ(counts().records, before.records);
  EXPECT_TRUE(holds(other, 1));
}

TEST_F(StoragesTest, WhatIsAcquiredForGoodIsChargedAndNoOpsBudget) {
  EXPECT_EQ(pager_.budget_of_ops(), room_for(4));
  ASSERT_NE(storages_.acquire_for_good(kBlock), nullptr);
  EXPECT_EQ(storages_.acquired_for_good(), kBlock);
  EXPECT_EQ(pager_.budget_of_ops(), room_for(3));
  EXPECT_EQ(counts().slab_bytes, kBlock.count());
  for (std::uint64_t seed = 0; seed < 4; ++seed) make(kBlock, seed);
  EXPECT_EQ(counts().page_outs, 1u) << "three of the blocks fit beside it";
}

}  // namespace
}  // namespace tensorpager::pager
