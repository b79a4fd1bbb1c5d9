// Pages that no block uses now: what a steady state costs, what the budget says of them, and the fuzzer's poison.
#include "pager_fixture.h"
#include "tensorpager/arena/kernel_moves.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class PoolTest : public PagerTest {};

TEST_F(PoolTest, ASteadyStateMakesNoSystemCall) {
  for (const Bytes budget : {kUnlimited, 12_MiB}) {
    start(budget);
    const auto step = [&] {
      std::vector<Block*> made;
      for (const Bytes size : {64_KiB, 20_KiB, 3_MiB, 64_KiB, 5_MiB, 1_MiB})
        made.push_back(&pager_.storages().create(size));
      for (Block* block : made) pager_.storages().destroy(*block);
    };
    for (int i = 0; i < 3; ++i) step();
    const std::uint64_t before = counts().system_calls;
    EXPECT_GT(before, 0u);
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(counts().system_calls, before);
    pager_.stop();
  }
}

TEST_F(PoolTest, SizesThatTakeTurnsShareThePagesWithoutASystemCall) {
  start(3_MiB);
  const auto round = [&] {
    for (const auto& [count, size] : {std::pair(8, 384_KiB), std::pair(4, 768_KiB), std::pair(2, 1536_KiB)}) {
      for (int i = 0; i < count; ++i) make(size, static_cast<std::uint64_t>(i));
      while (!blocks_.empty()) destroy(*blocks_.back());
    }
  };
  round();
  round();
  const Statistics before = counts();
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(counts().populated_bytes, before.populated_bytes);
  EXPECT_EQ(counts().system_calls, before.system_calls);
  EXPECT_EQ(counts().pooled_bytes, before.pooled_bytes);
}

TEST_F(PoolTest, WhatIsPagedOutAndInByTurnsOfSizesPopulatesNothingMore) {
  if (!arena::kernel_moves_across_mappings()) GTEST_SKIP() << "the kernel moves one mapping only";
  start(3_MiB);
  Block& kept = make(1536_KiB, 1);
  const auto round = [&](std::uint64_t seed) {
    for (const auto& [count, size] : {std::pair(8, 384_KiB), std::pair(4, 768_KiB)}) {
      std::vector<Block*> made;
      for (int i = 0; i < count; ++i) made.push_back(&make(size, seed));
      EXPECT_TRUE(kept.is_absent());
      for (Block* block : made) destroy(*block);
      EXPECT_TRUE(holds(kept, 1));
    }
  };
  round(1);
  round(2);
  const Statistics before = counts();
  for (std::uint64_t i = 0; i < 10; ++i) round(i);
  const Statistics after = counts();
  EXPECT_EQ(after.page_ins, before.page_ins + 20);
  EXPECT_EQ(after.populated_bytes, before.populated_bytes);
  EXPECT_EQ(after.pooled_bytes, before.pooled_bytes);
  // A page-out and a page-in take nine calls, and a clean block is dropped for as many.
  EXPECT_LE(after.system_calls - before.system_calls, 20u * 9);
}

TEST_F(PoolTest, ABlockTakesTheRangeOfItsSizeThatCameBackLast) {
  start(kUnlimited);
  Block& first = make(kBlock, 1);
  const std::byte* data = first.data;
  destroy(first);
  EXPECT_EQ(counts().pooled_bytes, kBlock.count());
  EXPECT_EQ(make(kBlock, 2).data, data);
  EXPECT_EQ(counts().pooled_bytes, 0u);
}

TEST_F(PoolTest, PooledPagesMakeWayUnderTheBudget) {
  start(4_MiB);
  destroy(make(3_MiB, 1));
  EXPECT_EQ(counts().pooled_bytes, (3_MiB).count());
  make(2_MiB, 2);
  EXPECT_LE(counts().pooled_bytes, (2_MiB).count());
  EXPECT_LE(witness(), 4_MiB);
  EXPECT_EQ(counts().page_outs, 0u) << "nothing was evicted for what a cache held";
}

TEST_F(PoolTest, PagesOfAnEvictedBlockGoUnderTheNext) {
  start(room_for(4));
  for (std::uint64_t i = 0; i < 40; ++i) make(kBlock, i);
  EXPECT_LE(witness(), room_for(4));
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_TRUE(holds(*blocks_[i], i));
  EXPECT_LE(witness(), room_for(4));
}

TEST_F(PoolTest, AnUnlimitedBudgetDoesNotKeepAllThatWasEverTouched) {
  start(kUnlimited);
  for (std::uint64_t size = 1; size <= 400; ++size)
    pager_.storages().destroy(pager_.storages().create(Bytes(size << 12) + 1_MiB));
  EXPECT_LE(counts().pooled_bytes, (64_MiB + 4_MiB).count());
}

TEST_F(PoolTest, MappingsDoNotGrowWithTheNumberOfEvictions) {
  start(2_MiB);
  for (std::uint64_t i = 0; i < 64; ++i) make(Bytes((i % 7 + 1) << 14), i);
  const auto pass = [&] {
    for (std::uint64_t i = 0; i < 64; ++i) EXPECT_TRUE(holds(*blocks_[i * 29 % 64], i * 29 % 64));
  };
  pass();
  const std::uint64_t before = counts().mappings;
  for (int i = 0; i < 20; ++i) pass();
  EXPECT_LE(counts().mappings, before + 100);
}

TEST_F(PoolTest, WitnessIsAskedEverySoManyOps) {
  pager_.start({.budget = kUnlimited, .fuzz = {}, .witness_ops = 4, .curve = false}, ram_queues());
  for (int op = 0; op < 3; ++op) pager_.boundaries().op_begins();
  make(1_MiB, 1);
  EXPECT_EQ(counts().witness_peak_bytes, 0u);
  pager_.boundaries().op_begins();
  EXPECT_EQ(counts().witness_peak_bytes, (1_MiB).count());
  EXPECT_EQ(counts().ops, 4u);
}

TEST_F(PoolTest, TheCurveFollowsLiveAndChargedBytes) {
  pager_.start({.budget = room_for(2), .fuzz = {}, .witness_ops = 0, .curve = true}, ram_queues());
  for (std::uint64_t i = 0; i < 4; ++i) {
    pager_.boundaries().op_begins();
    make(kBlock, i);
  }
  const std::vector<Curve::Point> curve = pager_.accounts().curve();
  ASSERT_EQ(curve.size(), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(curve[i].op, i + 1);
    EXPECT_EQ(curve[i].live, room_for(i + 1));
    EXPECT_LE(curve[i].charged, room_for(2));
  }
  EXPECT_EQ(curve[3].charged, room_for(2));
}

class FuzzTest : public PagerTest {
 protected:
  void start_fuzzing(std::uint64_t seed) {
    pager_.start({.budget = kUnlimited, .fuzz = seed, .witness_ops = 0, .curve = false}, ram_queues());
  }
  /// Which of 16 blocks are absent after four op boundaries of two evictions each.
  std::vector<bool> absent_after(std::uint64_t seed) {
    start_fuzzing(seed);
    std::vector<bool> absent;
    for (std::uint64_t i = 0; i < 16; ++i) make(kBlock, i);
    for (int op = 0; op < 4; ++op) pager_.boundaries().op_begins();
    for (std::uint64_t i = 0; i < 16; ++i) absent.push_back(blocks_[i]->is_absent());
    EXPECT_EQ(counts().fuzz_page_outs, 8u);
    for (std::uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(holds(*blocks_[i], i));
    while (!blocks_.empty()) destroy(*blocks_.back());
    pager_.stop();
    return absent;
  }
};

TEST_F(FuzzTest, EvictsAtRandomWithoutNeedAndRepeatsWithTheSeed) {
  const std::vector<bool> first = absent_after(1);
  EXPECT_EQ(absent_after(1), first);
  EXPECT_NE(absent_after(2), first);
}

TEST_F(FuzzTest, NeverEvictsAPinnedBlock) {
  start_fuzzing(3);
  PinSet op(pager_, Temporaries::kKeep);
  Block& block = make(kBlock, 1);
  for (int i = 0; i < 100; ++i) pager_.boundaries().op_begins();
  EXPECT_FALSE(block.is_absent());
  EXPECT_EQ(counts().fuzz_page_outs, 0u);
}

TEST_F(FuzzTest, ShowsStaleAccessByPoison) {
  start_fuzzing(4);
  destroy(make(kBlock, 1));
  const Block& reused = pager_.storages().create(kBlock);
  blocks_.push_back(const_cast<Block*>(&reused));
  EXPECT_TRUE(std::all_of(reused.data, reused.data + kBlock.count(), [](std::byte b) { return b == std::byte{0xFF}; }));
}

}  // namespace
}  // namespace tensorpager::pager
