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
  EXPECT_EQ(pager_.outside().pin_export(block.data), &block);
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
  EXPECT_EQ(counts().export_bytes, kBlock.count());
  pager_.outside().unpin_export(block);
  EXPECT_EQ(counts().export_bytes, 0u);
  pager_.page_out_all();
  EXPECT_TRUE(block.is_absent());
}

TEST_F(ExportTest, CountsItsBytesOnceHoweverManyThereAre) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pager_.outside().pin_export(block.data), &block);
  EXPECT_EQ(counts().export_bytes, kBlock.count());
  for (int i = 0; i < 2; ++i) pager_.outside().unpin_export(block);
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
  pager_.outside().unpin_export(block);
  EXPECT_EQ(counts().export_bytes, 0u);
}

TEST_F(ExportTest, MakesAnAbsentOrCleanBlockWritableForTheKernelToo) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  for (const bool make_clean : {false, true}) {
    pager_.page_out_all();
    EXPECT_TRUE(!make_clean || holds(block, 1));
    pager_.outside().pin_export(block.data + 1000);
    EXPECT_FALSE(block.is_absent());
    EXPECT_FALSE(block.is_clean());
    fill(block, 1);
    EXPECT_EQ(counts().faults + counts().write_faults, 0u);
    pager_.outside().unpin_export(block);
  }
}

TEST_F(ExportTest, FindsABlockByItsInnerAddressesOnly) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  const std::byte* chunk = pager_.storages().acquire_slab_chunk(64_KiB);
  EXPECT_EQ(pager_.outside().pin_export(block.data + kBlock.count() - 1), &block);
  pager_.outside().unpin_export(block);
  EXPECT_EQ(pager_.outside().pin_export(block.data + kBlock.count()), nullptr);
  EXPECT_EQ(pager_.outside().pin_export(chunk), nullptr) << "slabs are never evicted";
  EXPECT_EQ(pager_.outside().pin_export(this), nullptr);
  EXPECT_EQ(pager_.outside().pin_export(nullptr), nullptr);
}

TEST_F(ExportTest, SurvivesTheDeathOfItsBlock) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.outside().pin_export(block.data);
  pager_.outside().pin_export(block.data);
  destroy(block);
  EXPECT_EQ(counts().export_bytes, 0u);
  EXPECT_EQ(counts().live_bytes, 0u);
  EXPECT_EQ(counts().records, 1u);
  pager_.outside().unpin_export(block);
  EXPECT_EQ(counts().records, 1u);
  pager_.outside().unpin_export(block);
  EXPECT_EQ(counts().records, 0u);
}

TEST_F(ExportTest, ADeadBlocksRecordWaitsForItsPinsAndItsExports) {
  start(1_MiB);
  for (const bool export_ends_first : {true, false}) {
    Block& block = make(kBlock, 1);
    pager_.outside().pin_export(block.data);
    {
      PinSet op(pager_, Temporaries::kKeep);
      op.see(block, Access::kRead);
      op.admit();
      destroy(block);
      if (export_ends_first) pager_.outside().unpin_export(block);
      EXPECT_EQ(counts().records, 1u);
    }
    if (!export_ends_first) {
      EXPECT_EQ(counts().records, 1u);
      pager_.outside().unpin_export(block);
    }
    EXPECT_EQ(counts().records, 0u);
  }
}

TEST_F(ExportTest, OfACollectivesThreadEndsWithItsBlockAndLeavesNoRecord) {
  start(room_for(4));
  t_state.keeps_allocations = true;
  Block& block = make(kBlock, 1);
  t_state.keeps_allocations = false;
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
  EXPECT_EQ(counts().export_bytes, kBlock.count());
  destroy(block);
  EXPECT_EQ(counts().records, 0u);
}

/// Exports of a collective under way, which are let go when somebody needs the room.
struct UnderWay {
  static inline Pager* pager = nullptr;
  static inline std::vector<Block*> exports;
  static inline int asked = 0;

  static bool let_one_go() {
    ++asked;
    if (exports.empty()) return false;
    pager->outside().unpin_export(*exports.back());
    exports.pop_back();
    return true;
  }
};

class ReliefTest : public ExportTest {
 protected:
  void start_with_exports(std::uint64_t blocks) {
    UnderWay::pager = &pager_;
    UnderWay::asked = 0;
    pager_.set_relief(&UnderWay::let_one_go);
    start(room_for(4));
    for (std::uint64_t seed = 0; seed < blocks; ++seed)
      UnderWay::exports.push_back(pager_.outside().pin_export(make(kBlock, seed).data));
  }
  void TearDown() override {
    while (!UnderWay::exports.empty()) UnderWay::let_one_go();
    ExportTest::TearDown();
  }
};

TEST_F(ReliefTest, IsAskedForUntilAnAllocationFits) {
  start_with_exports(4);
  PinSet op(pager_, Temporaries::kKeep);
  make(room_for(2), 5);
  EXPECT_EQ(UnderWay::exports.size(), 2u);
  EXPECT_EQ(UnderWay::asked, 2);
  EXPECT_EQ(counts().floor_bytes, room_for(4).count()) << "what was refused at first is no floor";
}

TEST_F(ReliefTest, LetsAnOpGoOnWhoseOtherArgumentsWerePinnedBefore) {
  start_with_exports(0);
  Block& absent = make(kBlock, 1);
  pager_.page_out_all();
  Block& clean = make(kBlock, 2);
  pager_.page_out_all();
  EXPECT_TRUE(holds(clean, 2));
  for (std::uint64_t seed = 3; seed < 6; ++seed)
    UnderWay::exports.push_back(pager_.outside().pin_export(make(kBlock, seed).data));
  PinSet op(pager_, Temporaries::kKeep);
  for (const Access access : {Access::kRead, Access::kWrite}) {
    op.see(clean, access);
    op.see(absent, access);
  }
  op.admit();
  EXPECT_EQ(UnderWay::asked, 1);
  EXPECT_EQ(counts().pins, 2u);
  EXPECT_TRUE(is_filled(clean, 2) && is_filled(absent, 1));
  EXPECT_EQ(counts().write_faults, 0u);
}

TEST_F(ReliefTest, IsNotWaitedForByWhatCouldNeverFit) {
  start_with_exports(1);
  EXPECT_THROW(make(room_for(5), 1), OverBudget);
  EXPECT_EQ(UnderWay::asked, 0);
}

TEST_F(ReliefTest, ThatDoesNotComeLeavesTheRefusal) {
  start_with_exports(0);
  PinSet op(pager_, Temporaries::kKeep);
  make(room_for(4), 1);
  EXPECT_THROW(make(kBlock, 2), OverBudget);
  EXPECT_EQ(UnderWay::asked, 1);
}

TEST_F(ExportTest, IsRefusedWhereItDoesNotFit) {
  start(room_for(2));
  Block& absent = make(kBlock, 1);
  pager_.page_out_all();
  PinSet op(pager_, Temporaries::kKeep);
  make(room_for(2), 2);
  EXPECT_THROW(pager_.outside().pin_export(absent.data), OverBudget);
  EXPECT_TRUE(absent.is_absent());
  EXPECT_EQ(counts().export_bytes, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
