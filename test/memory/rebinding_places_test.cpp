// Where blocks are put in the arena of the rebinding binding, and which are evicted for them.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "holders.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::memory {
namespace {

using base::Bytes;
using pager::Access;
using pager::Block;
using pager::PinSet;
using pager::Temporaries;

class RebindingPlacesTest : public testing::Test {
 protected:
  void start(Bytes budget) {
    pager_.start({.budget = budget, .fuzz = {}}, transfer::make_synchronous_queues(transfer::make_ram_tier()));
  }
  void TearDown() override {
    const pager::Statistics counts = pager_.accounts().statistics();
    EXPECT_EQ(counts.pins, 0U);
    EXPECT_EQ(counts.live_blocks, 0U);
    EXPECT_EQ(counts.spill_bytes, 0U);
    EXPECT_EQ(counts.over_budget_bytes, 0U);
  }

  void make(Storage& storage, Bytes size = kBlock) {
    storage.block = &pager_.storages().create(size);
    storage.data = storage.block->data;
    std::memset(storage.data, 1, size.count());
    pager_.storages().claim(*storage.block, &storage);
  }
  void destroy(Storage& storage) { pager_.storages().destroy(*std::exchange(storage.block, nullptr)); }
  void use(const Storage& storage, Access access) {
    PinSet pins(pager_, Temporaries::kKeep);
    pins.see(*storage.block, access);
    pins.admit();
  }
  void let_ops_pass(int count) {
    for (int i = 0; i < count; ++i) pager_.boundaries().op_begins();
  }

  arena::AddressSpace space_;
  Storages storages_;
  RebindingBinding binding_{space_, storages_};
  pager::Pager pager_{space_, binding_, std::make_unique<pager::LruPolicy>()};
};

//   |  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7  |  8  |     all used but 4, which is the cheapest to page out
//
// The op makes one block, which it keeps, and then one of six. In the place of 4 the first would leave four and four.
TEST_F(RebindingPlacesTest, WhatAnOpMakesFirstDoesNotSplitTheRoomForWhatItMakesNext) {
  start(blocks(9));
  Storage all[9];
  for (Storage& one : all) make(one);
  let_ops_pass(10);
  for (const Storage& one : all)
    if (&one != &all[4]) use(one, Access::kRead);
  pager_.boundaries().op_begins();
  pager::WorkingRoom room;
  room.created = blocks(7).count();  // as an earlier call of the op did
  {
    PinSet pins(pager_, Temporaries::kKeep, &room);
    pins.admit();
    Block& small = pager_.storages().create(kBlock);
    Block* large = nullptr;
    EXPECT_NO_THROW(large = &pager_.storages().create(blocks(6)));
    if (large != nullptr) pager_.storages().destroy(*large);
    pager_.storages().destroy(small);
  }
  for (Storage& one : all) destroy(one);
}

TEST_F(RebindingPlacesTest, TheCheapestMakesWayForWhatAnOpMakesLast) {
  start(blocks(9));
  Storage all[9], last;
  for (Storage& one : all) make(one);
  let_ops_pass(10);
  for (const Storage& one : all)
    if (&one != &all[4]) use(one, Access::kRead);
  make(last);
  EXPECT_EQ(all[4].data, nullptr);
  destroy(last);
  for (Storage& one : all) destroy(one);
}

// The page-in of the first argument makes no way for the second: the op would run without the first.
TEST_F(RebindingPlacesTest, AnOpWhoseArgumentsDoNotFitTogetherIsRefused) {
  start(blocks(3));
  Storage first, second;
  make(first, blocks(2));
  make(second, blocks(2));
  pager_.page_out_all();
  {
    PinSet pins(pager_, Temporaries::kKeep);
    pins.see(*first.block, Access::kRead);
    pins.see(*second.block, Access::kRead);
    EXPECT_THROW(pins.admit(), base::OverBudget);
  }
  use(first, Access::kRead);
  EXPECT_EQ(first.data[0], std::byte{1});
  destroy(first), destroy(second);
}

/// Of two blocks the clean one was unused for three ops. What must be copied out and back costs twice what is only
/// copied back, so the dirty one is cheaper if it was unused for more than twice as long. A third block is in use.
class DirtyBlockTest : public RebindingPlacesTest, public testing::WithParamInterface<int> {};

TEST_P(DirtyBlockTest, LeavesBeforeACleanOneIfItWasUnusedForMoreThanTwiceAsLong) {
  constexpr int kCleanUnused = 3;
  const int dirty_unused = GetParam();
  start(blocks(3));
  Storage dirty, clean, used, other;
  for (Storage* one : {&dirty, &clean, &used}) make(*one);
  pager_.page_out_all();
  use(clean, Access::kRead);
  use(dirty, Access::kWrite);
  use(used, Access::kRead);  // at the low end, which is kept for slabs
  ASSERT_TRUE(clean.block->is_clean());
  ASSERT_FALSE(dirty.block->is_clean());
  // The op of the last use counts as one.
  let_ops_pass(dirty_unused - kCleanUnused);
  use(clean, Access::kRead);
  let_ops_pass(kCleanUnused - 1);
  use(used, Access::kRead);
  make(other);
  EXPECT_EQ(dirty.data == nullptr, dirty_unused > 2 * kCleanUnused);
  EXPECT_EQ(clean.data == nullptr, dirty_unused < 2 * kCleanUnused);
  for (Storage* one : {&dirty, &clean, &used, &other}) destroy(*one);
}

INSTANTIATE_TEST_SUITE_P(Unused, DirtyBlockTest, testing::Values(3, 5, 7, 9));

}  // namespace
}  // namespace tensorpager::memory
