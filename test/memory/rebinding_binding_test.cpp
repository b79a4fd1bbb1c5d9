// The pager over the rebinding binding, with holders that stand for storages: they know their block's address only as
// they are told it.
#include "tensorpager/memory/rebinding_binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "../pager/script.h"
#include "holders.h"
#include "tensorpager/follow/plan_cursor.h"
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

class RebindingTest : public testing::Test {
 protected:
  void start(Bytes budget, std::optional<std::uint64_t> fuzz = std::nullopt) {
    pager::Pager::Options options;
    options.budget = budget;
    options.fuzz = fuzz;
    pager_.start(options, transfer::make_synchronous_queues(transfer::make_ram_tier()));
  }
  void TearDown() override {
    const pager::Statistics counts = pager_.accounts().statistics();
    EXPECT_EQ(counts.pins, 0U);
    EXPECT_EQ(counts.live_blocks, 0U);
    EXPECT_EQ(counts.spill_bytes, 0U);
    EXPECT_EQ(counts.over_budget_bytes, 0U);
  }

  /// Made, filled and claimed, as an op's result is.
  void make(Storage& storage, Bytes size, std::uint8_t value) {
    storage.block = &pager_.storages().create(size);
    storage.data = storage.block->data;
    std::memset(storage.data, value, size.count());
    pager_.storages().claim(*storage.block, &storage);
  }
  void destroy(Storage& storage) {
    Block& block = *storage.block;
    storage.block = nullptr;
    pager_.storages().destroy(block);
  }
  /// Reads inside an op.
  bool holds(const Storage& storage, std::uint8_t value) {
    PinSet pins(pager_, Temporaries::kKeep);
    pins.see(*storage.block, Access::kRead);
    pins.admit();
    for (std::uint64_t i = 0; i < storage.block->size.count(); i += 512)
      if (storage.data[i] != std::byte{value}) return false;
    return true;
  }

  arena::AddressSpace space_;
  Storages storages_;
  RebindingBinding binding_{space_, storages_};
  pager::Pager pager_{space_, binding_, std::make_unique<pager::LruPolicy>()};
};

TEST_F(RebindingTest, GivesAnEvictedStorageANullPointerAndANewAddressLater) {
  start(blocks(2));
  Storage a, b, c;
  make(a, kBlock, 1);
  make(b, kBlock, 2);
  std::byte* const before = a.data;
  make(c, kBlock, 3);
  EXPECT_EQ(a.data, nullptr);
  EXPECT_EQ(c.data, before);
  EXPECT_TRUE(holds(a, 1));
  EXPECT_NE(a.data, nullptr);
  EXPECT_TRUE(holds(b, 2));
  EXPECT_TRUE(holds(c, 3));
  for (Storage* one : {&a, &b, &c}) destroy(*one);
}

TEST_F(RebindingTest, LeavesAllWritableAfterASessionWithTheFuzzer) {
  start(blocks(2), 1);
  Storage a;
  make(a, kBlock, 1);
  pager_.page_out_all();
  EXPECT_TRUE(holds(a, 1));  // it is clean now, and protected
  pager_.stop();
  std::memset(a.data, 2, kBlock.count());
  EXPECT_EQ(a.data[0], std::byte{2});
  destroy(a);
}

TEST_F(RebindingTest, KeepsTheArenaWithinExactlyTheBudget) {
  start(blocks(3));
  Storage all[6];
  for (std::uint8_t i = 0; i < 6; ++i) make(all[i], kBlock, i);
  std::vector<std::byte*> resident;
  for (const Storage& one : all)
    if (one.data != nullptr) resident.push_back(one.data);
  std::ranges::sort(resident);
  ASSERT_EQ(resident.size(), 3U);
  EXPECT_EQ(resident[1] - resident[0], static_cast<std::ptrdiff_t>(kBlock.count()));
  EXPECT_EQ(resident[2] - resident[1], static_cast<std::ptrdiff_t>(kBlock.count()));
  EXPECT_LE(pager_.accounts().statistics().peak_bytes, blocks(3).count());
  for (std::uint8_t i = 0; i < 6; ++i) EXPECT_TRUE(holds(all[i], i));
  for (Storage& one : all) destroy(one);
}

TEST_F(RebindingTest, DoesNotEvictWhatNobodyCouldBeToldOf) {
  start(blocks(2));
  Block& scratch = pager_.storages().create(kBlock);  // as raw memory for a library
  Storage a, b;
  make(a, kBlock, 1);
  make(b, kBlock, 2);
  EXPECT_EQ(a.data, nullptr);
  EXPECT_NE(scratch.data, nullptr);
  EXPECT_THROW(pager_.storages().create(blocks(2)), base::OverBudget);
  pager_.storages().destroy(scratch);
  EXPECT_TRUE(holds(a, 1));
  destroy(a);
  destroy(b);
}

TEST_F(RebindingTest, LetsABlockStayWhoseHolderGaveItAway) {
  start(blocks(2));
  Storage a, b, moved;
  make(a, kBlock, 1);
  make(b, kBlock, 2);
  std::swap(a.block, moved.block);  // the program moved the memory to another storage
  moved.data = a.data;
  Storage c;
  make(c, kBlock, 3);
  EXPECT_NE(moved.data, nullptr);
  EXPECT_EQ(b.data, nullptr);
  EXPECT_TRUE(holds(moved, 1));
  for (Storage* one : {&moved, &b, &c}) destroy(*one);
}

TEST_F(RebindingTest, MovesAnOpsArgumentsTogetherWhereTheyLeaveNoRoom) {
  start(blocks(9));
  Storage all[9];
  for (std::uint8_t i = 0; i < 9; ++i) make(all[i], kBlock, i);
  // Two arguments that split the arena in thirds, and an op that creates six blocks in one piece.
  pager::WorkingRoom room;
  Block* result = nullptr;
  {
    PinSet pins(pager_, Temporaries::kKeep, &room);
    pins.see(*all[2].block, Access::kRead);
    pins.see(*all[5].block, Access::kRead);
    pins.admit();
    result = &pager_.storages().create(blocks(6));
    EXPECT_EQ(all[2].data[0], std::byte{2});
    EXPECT_EQ(all[5].data[0], std::byte{5});
  }
  pager_.storages().destroy(*result);
  for (std::uint8_t i = 0; i < 9; ++i) EXPECT_TRUE(holds(all[i], i));
  for (Storage& one : all) destroy(one);
}

TEST_F(RebindingTest, MovesThemTogetherIfWhatAPlannedOpMakesHasNoPlace) {
  start(blocks(9));
  Storage all[9];
  for (std::uint8_t i = 0; i < 9; ++i) make(all[i], kBlock, i);
  pager::Script script;
  script.births = {{.offset = blocks(100).count(), .bytes = blocks(6)}};  // not in the arena
  pager_.following().follow(&script);
  pager::WorkingRoom room;
  {
    PinSet pins(pager_, Temporaries::kKeep, &room);
    pins.see(*all[2].block, Access::kRead);
    pins.see(*all[5].block, Access::kRead);
    pins.follow(1);
    pins.admit();
    Block* result = nullptr;
    EXPECT_NO_THROW(result = &pager_.storages().create(blocks(6)));
    if (result != nullptr) pager_.storages().destroy(*result);
  }
  pager_.following().follow(nullptr);
  for (Storage& one : all) destroy(one);
}

TEST_F(RebindingTest, AsksOnceForThePlacesOfWhatAPlannedOpMakes) {
  start(blocks(9));
  Storage argument, absent;
  make(argument, kBlock, 1);
  make(absent, kBlock, 2);
  pager_.page_out_all();
  ASSERT_TRUE(holds(argument, 1));
  pager::Script script;
  script.births = {{.offset = blocks(6).count(), .bytes = kBlock}};
  pager_.following().follow(&script);
  pager::WorkingRoom room;
  const auto run_op = [&](Storage& storage) {
    PinSet pins(pager_, Temporaries::kKeep, &room);
    pins.see(*storage.block, Access::kRead);
    pins.follow(1);
    pins.admit();
    return std::exchange(script.births_asked, 0);
  };
  EXPECT_EQ(run_op(argument), 1);
  EXPECT_EQ(run_op(absent), 1) << "it has come before they are asked for";
  script.births = {{.offset = 0, .bytes = kBlock}};  // counted from the end of the arena, where the first block lies
  EXPECT_EQ(run_op(argument), 2) << "where it is itself nothing can be made";
  pager_.following().follow(nullptr);
  destroy(argument), destroy(absent);
}

TEST_F(RebindingTest, SaysWhenBytesWouldFitButNotInOnePiece) {
  start(blocks(5));
  Storage all[5];
  for (std::uint8_t i = 0; i < 5; ++i) make(all[i], kBlock, i);
  pager_.outside().pin_export(*all[2].block);  // cannot move
  try {
    pager_.storages().create(blocks(3));
    ADD_FAILURE();
  } catch (const base::OverBudget& error) {
    EXPECT_NE(std::string(error.what()).find("largest place between what is pinned is 128 KiB"), std::string::npos)
        << error.what();
  }
  pager_.outside().unpin_export(*all[2].block);
  for (std::uint8_t i = 0; i < 5; ++i) EXPECT_TRUE(holds(all[i], i));
  for (Storage& one : all) destroy(one);
}

// Plans have the upper twelve blocks' places. What no plan knows fills what is below; a slab is put into the lowest of
// it, and not into the free places above.
TEST_F(RebindingTest, KeepsSlabsOutOfThePlacesOfPlans) {
  start(blocks(16));
  binding_.places().keep_for_plans(blocks(12));
  Storage large, small;
  make(large, blocks(3), 1);
  make(small, kBlock, 2);
  const std::byte* const place = small.data;
  EXPECT_EQ(pager_.storages().acquire_slab_chunk(kBlock), place);
  EXPECT_EQ(small.data, nullptr) << "it was evicted";
  EXPECT_NE(large.data, nullptr);
  EXPECT_TRUE(holds(small, 2));
  EXPECT_NE(small.data, place);
  destroy(large), destroy(small);
}

TEST_F(RebindingTest, PutsSlabsAtTheLowEndThoughThereAreGapsAbove) {
  start(blocks(8));
  Storage all[8];
  for (std::uint8_t i = 0; i < 8; ++i) make(all[i], kBlock, i);
  const auto lowest = std::ranges::min_element(all, {}, [](const Storage& one) { return one.data; });
  const auto highest = std::ranges::max_element(all, {}, [](const Storage& one) { return one.data; });
  const std::byte* const place = lowest->data;
  destroy(*highest);
  EXPECT_EQ(pager_.storages().acquire_slab_chunk(kBlock), place);
  for (Storage& one : all)
    if (&one != highest) destroy(one);
}

/// Two that fill the arena and lie in each other's places: neither finds its own free.
TEST_F(RebindingTest, SwapsWhatLiesInEachOthersPlacesOnceAnOpUsesIt) {
  start(blocks(2));
  Storage both[2];
  make(both[0], kBlock, 1);
  make(both[1], kBlock, 2);
  std::byte* const places[2] = {both[0].data, both[1].data};
  const bool is_first_below = places[0] < places[1];  // places are counted from the high end
  const auto row = [](std::uint32_t storage, std::uint64_t offset) {
    return plan::Row{.storage = trace::StorageId{storage},
                     .bytes = kBlock,
                     .offset = offset,
                     .end = 1,
                     .fill = plan::Fill::kBoundary,
                     .leave = plan::Leave::kBoundary};
  };
  const trace::Trace trace{.storages = {{.bytes = kBlock, .entry = true}, {.bytes = kBlock, .entry = true}},
                           .ops = {{.name = "op", .reads = {trace::StorageId{0}, trace::StorageId{1}}}}};
  const plan::Plan plan{
      .budget = blocks(2),
      .ops = 1,
      .rows = {row(0, is_first_below ? 0 : kBlock.count()), row(1, is_first_below ? kBlock.count() : 0)}};
  follow::PlanCursor cursor(std::make_shared<const follow::Agenda>(trace, plan));
  cursor.bind(trace::StorageId{0}, *both[0].block);
  cursor.bind(trace::StorageId{1}, *both[1].block);
  pager_.following().follow(&cursor);
  {
    PinSet pins(pager_, Temporaries::kKeep);
    for (Storage& one : both) pins.see(*one.block, Access::kRead);
    pins.follow(base::name_hash("op"));
    pins.admit();
    EXPECT_EQ(both[0].data, places[1]);
    EXPECT_EQ(both[1].data, places[0]);
  }
  for (std::uint8_t i = 0; i < 2; ++i) EXPECT_TRUE(holds(both[i], static_cast<std::uint8_t>(i + 1)));
  pager_.following().follow(nullptr);
  for (Storage& one : both) destroy(one);
}

TEST_F(RebindingTest, BringsAllBackWhenTheBudgetIsLifted) {
  start(blocks(2));
  Storage all[4];
  for (std::uint8_t i = 0; i < 4; ++i) make(all[i], kBlock, i);
  pager_.stop();
  for (std::uint8_t i = 0; i < 4; ++i) {
    ASSERT_NE(all[i].data, nullptr);
    EXPECT_EQ(all[i].data[0], std::byte{i});
  }
  start(blocks(2));
  for (std::uint8_t i = 0; i < 4; ++i) EXPECT_TRUE(holds(all[i], i));
  for (Storage& one : all) destroy(one);
}

/// Random sizes, reads, writes and deaths, with the fuzzer at every op: contents are those of a map.
TEST_F(RebindingTest, KeepsContentsThroughRandomPrograms) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    start(blocks(12), seed % 2 == 0 ? std::make_optional(seed) : std::nullopt);
    std::mt19937_64 random(seed);
    std::map<std::uint64_t, std::pair<std::unique_ptr<Storage>, std::uint8_t>> live;
    for (std::uint64_t step = 0; step < 300; ++step) {
      pager_.boundaries().op_begins();
      const auto value = static_cast<std::uint8_t>(random());
      if (live.size() < 30 && random() % 3 == 0) {
        auto storage = std::make_unique<Storage>();
        make(*storage, Bytes(4096 * (1 + random() % 40)), value);
        live.emplace(step, std::make_pair(std::move(storage), value));
      } else if (!live.empty()) {
        auto one = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        auto& [storage, old] = one->second;
        ASSERT_TRUE(holds(*storage, old));
        if (random() % 4 == 0) {
          destroy(*storage);
          live.erase(one);
        } else if (random() % 2 == 0) {
          PinSet pins(pager_, Temporaries::kKeep);
          pins.see(*storage->block, Access::kWrite);
          pins.admit();
          std::memset(storage->data, value, storage->block->size.count());
          old = value;
        }
      }
    }
    for (auto& [step, one] : live) {
      EXPECT_TRUE(holds(*one.first, one.second));
      destroy(*one.first);
    }
    pager_.stop();
  }
}

}  // namespace
}  // namespace tensorpager::memory
