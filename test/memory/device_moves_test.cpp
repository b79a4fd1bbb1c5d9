// Blocks of a device that are moved within the arena, to leave room in one piece for what an op creates.
#include <gtest/gtest.h>

#include <vector>

#include "../pager/script.h"
#include "device_pager.h"

namespace tensorpager::memory {
namespace {

using namespace base;
using pager::Access;
using pager::Block;
using pager::PinSet;

class DeviceMovesTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr Bytes kBudget{std::uint64_t{1} << 20};

  Block& make(Bytes size, Storage& storage) {
    PinSet op(pager_, pager::Temporaries::kKeep);
    op.admit();
    Block& block = pager_.storages().create(size);
    storage = {&block, block.data};
    fill(block, 1);
    pager_.storages().claim(block, &storage);
    return block;
  }
  void fill(Block& block, std::uint32_t value) {
    std::byte* const at = block.data;
    device_.streams.launch("fill", {{at, block.size.count(), true}},
                           [this, at, value] { std::memcpy(device_.streams.view(at), &value, sizeof value); });
  }
  /// An op that reads the block in a stream.
  void read(std::size_t stream, Block& block, pager::WorkingRoom* room = nullptr) {
    device_.streams.compute_on(stream);
    PinSet op(pager_, pager::Temporaries::kKeep, room);
    op.see(block, Access::kRead);
    op.admit();
    const std::byte* const at = block.data;
    device_.streams.launch("read", {{at, block.size.count(), false}}, [this, at] {
      std::uint32_t found = 0;
      std::memcpy(&found, device_.streams.view(at), sizeof found);
      wrong_ += found != 1 ? 1 : 0;
    });
  }

  /// An op that writes the block in a stream.
  void write(std::size_t stream, Block& block) {
    device_.streams.compute_on(stream);
    PinSet op(pager_, pager::Temporaries::kKeep);
    op.see(block, Access::kWrite);
    op.admit();
    fill(block, 1);
  }

  DevicePager device_{GetParam(), kBudget};
  pager::Pager& pager_ = device_.pager;
  std::atomic<int> wrong_{0};
};

TEST_P(DeviceMovesTest, AreWaitedForByStreamsThatUsedTheBlockBefore) {
  Storage first, middle;
  Block& low = make(320_KiB, first);
  Block& block = make(128_KiB, middle);
  device_.streams.compute_on(1);
  device_.streams.join_streams();  // behind the writes
  read(1, block);
  pager_.storages().destroy(low);
  const std::byte* const before = block.data;
  pager::WorkingRoom room;
  room.arguments = block.charged.count();
  room.created = (800_KiB).count();  // more than either side of the block has
  read(0, block, &room);
  ASSERT_NE(block.data, before) << "the block was not moved";
  read(1, block);
  EXPECT_EQ(device_.races(), "\"races\": 0");
  EXPECT_EQ(wrong_, 0);
  pager_.storages().destroy(block);
}

TEST_P(DeviceMovesTest, KeepTheBytesWhereTheOldPlaceAndTheNewOverlap) {
  constexpr std::size_t kWords = 4096, kShift = 3 * 512;
  std::byte* const low = device_.arena->begin();
  const auto move_and_check = [&](std::byte* to, std::byte* from) {
    std::vector<std::uint32_t> words(kWords);
    device_.streams.finish();
    for (std::size_t i = 0; i < kWords; ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
    std::memcpy(device_.streams.view(from), words.data(), kWords * sizeof(std::uint32_t));
    device_.arena->move(to, from, Bytes(kWords * sizeof(std::uint32_t)));
    device_.streams.finish();
    EXPECT_EQ(std::memcmp(device_.streams.view(to), words.data(), kWords * sizeof(std::uint32_t)), 0);
  };
  move_and_check(low, low + kShift);
  move_and_check(low + kShift, low);
  move_and_check(low + (kWords * sizeof(std::uint32_t)) * 2, low);
  EXPECT_EQ(device_.races(), "\"races\": 0");
}

TEST_P(DeviceMovesTest, APlannedOpIsOrderedBehindItsPageInsInTheOneLockThatItTakes) {
  Storage storage;
  Block& block = make(128_KiB, storage);
  pager_.page_out_all();
  ASSERT_TRUE(block.is_absent());
  pager::Script script;
  pager_.following().follow(&script);
  device_.streams.compute_on(0);
  {
    const std::uint64_t before = pager_.locks_taken();
    PinSet op(pager_, pager::Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.follow(name_hash("op"));
    op.admit();
    EXPECT_EQ(pager_.locks_taken() - before, 1U);
    const std::byte* const at = block.data;
    device_.streams.launch("read", {{at, block.size.count(), false}}, [] {});
  }
  pager_.following().follow(nullptr);
  EXPECT_EQ(device_.races(), "\"races\": 0");
  pager_.storages().destroy(block);
}

// A replay in stream 1, which the program has never ordered with stream 0.
TEST_P(DeviceMovesTest, AReplayIsOrderedWithAllStreamsThatUseItsBlocks) {
  device_.streams.compute_on(0);
  Storage storage;
  Block& block = make(128_KiB, storage);
  const device::QueueSet first = pager_.ordering().queue_here();
  std::byte* const copy = device_.streams.allocate(4_KiB);
  device_.streams.launch("copy of a small argument", {{copy, 4096, true}}, [] {});
  device_.streams.compute_on(1);
  {
    PinSet op(pager_, pager::Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.admit();
    Block* const blocks[] = {&block};
    pager_.ordering().begin_out_of_order(blocks, first);
    device_.streams.launch("replay", {{block.data, block.size.count(), false}, {copy, 4096, false}}, [] {});
    pager_.ordering().end_out_of_order(blocks, first);
  }
  device_.streams.compute_on(0);
  device_.streams.launch("reuse of the copy", {{copy, 4096, true}}, [] {});
  write(0, block);
  EXPECT_EQ(device_.races(), "\"races\": 0");
  pager_.storages().destroy(block);
}

TEST_P(DeviceMovesTest, AReplayReadsACopyAfterTheStreamThatMadeIt) {
  device_.streams.compute_on(0);
  const device::QueueSet first = pager_.ordering().queue_here();
  std::byte* const copy = device_.streams.allocate(4_KiB);
  device_.streams.launch("copy of a small argument", {{copy, 4096, true}}, [] {});
  device_.streams.compute_on(1);
  pager_.ordering().begin_out_of_order({}, first);
  device_.streams.launch("replay", {{copy, 4096, false}}, [] {});
  pager_.ordering().end_out_of_order({}, first);
  device_.streams.compute_on(0);
  device_.streams.launch("reuse of the copy", {{copy, 4096, true}}, [] {});
  EXPECT_EQ(device_.races(), "\"races\": 0");
}

TEST_P(DeviceMovesTest, OneThatUsesItsBlockInAThirdStreamComesBehindTheReplay) {
  device_.streams.compute_on(0);
  Storage storage;
  Block& block = make(128_KiB, storage);
  device_.streams.compute_on(2);
  device_.streams.join_streams();
  device_.streams.compute_on(1);
  Block* const blocks[] = {&block};
  pager_.ordering().begin_out_of_order(blocks, device::kNoQueue);
  device_.streams.launch("replay", {{block.data, block.size.count(), false}}, [] {});
  pager_.ordering().end_out_of_order(blocks, device::kNoQueue);
  write(2, block);
  EXPECT_EQ(device_.races(), "\"races\": 0");
  pager_.storages().destroy(block);
}

INSTANTIATE_TEST_SUITE_P(Schedules, DeviceMovesTest, testing::Values("now", "1", "2", "3"),
                         [](const auto& instance) { return std::string("Schedule") + instance.param; });

}  // namespace
}  // namespace tensorpager::memory
