// Memory that leaves the program's ops: an export keeps its block resident and writable for as long as it lives.
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class ExportTest : public PagerTest {};

TEST_F(ExportTest, HoldsWhileAllElseIsPagedOut) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  EXPECT_EQ(pager_.pin_export(block.data), &block);
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
  EXPECT_EQ(counts().export_bytes, kBlock.count());
  pager_.unpin_export(block);
  EXPECT_EQ(counts().export_bytes, 0u);
  pager_.page_out_all();
  EXPECT_TRUE(block.is_absent());
}

TEST_F(ExportTest, CountsItsBytesOnceHoweverManyThereAre) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pager_.pin_export(block.data), &block);
  EXPECT_EQ(counts().export_bytes, kBlock.count());
  for (int i = 0; i < 2; ++i) pager_.unpin_export(block);
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
  pager_.unpin_export(block);
  EXPECT_EQ(counts().export_bytes, 0u);
}

TEST_F(ExportTest, MakesAnAbsentOrCleanBlockWritableForTheKernelToo) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  for (const bool make_clean : {false, true}) {
    pager_.page_out_all();
    EXPECT_TRUE(!make_clean || holds(block, 1));
    pager_.pin_export(block.data + 1000);
    EXPECT_FALSE(block.is_absent());
    EXPECT_FALSE(block.is_clean());
    fill(block, 1);
    EXPECT_EQ(counts().faults + counts().write_faults, 0u);
    pager_.unpin_export(block);
  }
}

TEST_F(ExportTest, FindsABlockByItsInnerAddressesOnly) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  const std::byte* chunk = pager_.acquire_slab_chunk(64_KiB);
  EXPECT_EQ(pager_.pin_export(block.data + kBlock.count() - 1), &block);
  pager_.unpin_export(block);
  EXPECT_EQ(pager_.pin_export(block.data + kBlock.count()), nullptr);
  EXPECT_EQ(pager_.pin_export(chunk), nullptr) << "slabs are never evicted";
  EXPECT_EQ(pager_.pin_export(this), nullptr);
  EXPECT_EQ(pager_.pin_export(nullptr), nullptr);
}

TEST_F(ExportTest, SurvivesTheDeathOfItsBlock) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.pin_export(block.data);
  pager_.pin_export(block.data);
  destroy(block);
  EXPECT_EQ(counts().export_bytes, 0u);
  EXPECT_EQ(counts().live_bytes, 0u);
  EXPECT_EQ(counts().records, 1u);
  pager_.unpin_export(block);
  EXPECT_EQ(counts().records, 1u);
  pager_.unpin_export(block);
  EXPECT_EQ(counts().records, 0u);
}

TEST_F(ExportTest, ADeadBlocksRecordWaitsForItsPinsAndItsExports) {
  start(1_MiB);
  for (const bool export_ends_first : {true, false}) {
    Block& block = make(kBlock, 1);
    pager_.pin_export(block.data);
    {
      PinSet op(pager_, Temporaries::kKeep);
      op.see(block, Access::kRead);
      op.admit();
      destroy(block);
      if (export_ends_first) pager_.unpin_export(block);
      EXPECT_EQ(counts().records, 1u);
    }
    if (!export_ends_first) {
      EXPECT_EQ(counts().records, 1u);
      pager_.unpin_export(block);
    }
    EXPECT_EQ(counts().records, 0u);
  }
}

TEST_F(ExportTest, IsRefusedWhereItDoesNotFit) {
  start(room_for(2));
  Block& absent = make(kBlock, 1);
  pager_.page_out_all();
  PinSet op(pager_, Temporaries::kKeep);
  make(room_for(2), 2);
  EXPECT_THROW(pager_.pin_export(absent.data), OverBudget);
  EXPECT_TRUE(absent.is_absent());
  EXPECT_EQ(counts().export_bytes, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
