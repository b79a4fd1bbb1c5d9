// Addresses and pages by the kernel's account: what may be accessed, what stays, what is given back.
#include "tensorpager/memory/stable_binding.h"

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "stable_binding_fixture.h"

namespace tensorpager::memory {
namespace {

TEST_P(StableBindingTest, ChargesWholePages) {
  EXPECT_EQ(binding_.charge_for(1_B), 4_KiB);
  EXPECT_EQ(binding_.charge_for(16_KiB), 16_KiB);
  EXPECT_EQ(binding_.charge_for(Bytes(16385)), 20_KiB);
}

TEST_P(StableBindingTest, ANewBlockIsPopulatedAndWritable) {
  for (const Bytes size : {16_KiB, 5_MiB}) {
    Block block;
    const Bytes before = resident();
    acquire(block, size);
    EXPECT_EQ(resident(), before + size);
    std::memset(block.data, 1, size.count());
    EXPECT_EQ(resident(), before + size);
  }
}

TEST_P(StableBindingTest, CountsTheFreshPagesThatItTakes) {
  Block block, same_size;
  acquire(block, 64_KiB);
  acquire(same_size, 1_MiB);
  EXPECT_EQ(binding_.populated(), 1_MiB + 64_KiB);
  page_out(block);
  page_in(block, 1, Access::kRead);
  binding_.release(same_size);
  acquire(same_size, 1_MiB);
  EXPECT_EQ(binding_.populated(), 1_MiB + 64_KiB) << "pooled pages are none";
}

/// In the mappings of a block, by the kernel's account.
Bytes in_huge_pages(const Block& block) {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(block.data), end = begin + block.charged.count();
  Bytes sum;
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0, kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) is_inside = begin <= from && to <= end;
    if (is_inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kibibytes) == 1) sum += Bytes(kibibytes << 10);
  }
  return sum;
}

TEST_P(StableBindingTest, LargeBlocksKeepHugePagesWhileTheyAndSmallOnesTakeTurns) {
  Block large[2], small[3];
  acquire(large[0], 5_MiB);
  if (in_huge_pages(large[0]) != 4_MiB) GTEST_SKIP() << "the machine gave no huge pages";
  acquire(large[1], Bytes(6500 << 10));
  for (int round = 0; round < 4; ++round) {
    for (Block& block : large) page_out(block);
    for (Block& block : small) acquire(block, 700_KiB, 0_B);
    for (Block& block : small) binding_.release(block);
    page_in(large[1], 1, Access::kWrite);
    page_in(large[0], 2, Access::kWrite);
    EXPECT_EQ(in_huge_pages(large[1]), 6_MiB) << "round " << round;
    EXPECT_EQ(in_huge_pages(large[0]), 4_MiB) << "round " << round;
    EXPECT_TRUE(is_all(large[0], 2) && is_all(large[1], 1));
  }
}

TEST_P(StableBindingTest, AnEvictedBlockIsInaccessibleAndItsPagesArePooled) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  EXPECT_FALSE(probe_.may_read(block.data));
  EXPECT_FALSE(probe_.may_read(block.data + (64 << 10) - 1));
  EXPECT_EQ(binding_.pooled(), 64_KiB);
  EXPECT_EQ(resident(), 64_KiB);
}

TEST_P(StableBindingTest, AReaderBesideAMoveSeesTheBytesOrMayNotRead) {
  Block block;
  acquire(block, 64_KiB);
  std::memset(block.data, 1, 64 << 10);
  std::atomic<bool> is_over = false;
  int reads = 0;
  std::thread reader([&] {
    AccessProbe probe;
    for (std::size_t page = 0; !is_over; ++page, ++reads) {
      const auto byte = probe.read_byte(block.data + page % 16 * kPage.count());
      EXPECT_EQ(byte.value_or(1), 1) << "of an empty page";
    }
  });
  for (int i = 0; i < 5000; ++i) {
    const pager::Relocation away = binding_.begin_unbind(block);
    relocate(away);
    relocate(binding_.begin_bind(block, away.there(), Access::kWrite));
  }
  is_over = true;
  reader.join();
  EXPECT_GT(reads, 100);
}

TEST_P(StableBindingTest, ABlockUnderPageOutMayOnlyBeRead) {
  Block block;
  acquire(block, 64_KiB);
  std::memset(block.data, 7, 64 << 10);
  binding_.begin_page_out(block);
  EXPECT_TRUE(probe_.may_read(block.data));
  EXPECT_FALSE(probe_.may_write(block.data));
  binding_.make_writable(block);
  EXPECT_TRUE(probe_.may_write(block.data));
  EXPECT_TRUE(is_all(block, 7));
}

TEST_P(StableBindingTest, ReadInBlocksAreReadOnlyUntilTheyAreMadeWritable) {
  for (const Bytes size : {64_KiB, 3_MiB}) {
    Block block;
    acquire(block, size);
    const std::byte* data = block.data;
    page_out(block);
    page_in(block, 5, Access::kRead);
    EXPECT_EQ(block.data, data);
    EXPECT_TRUE(is_all(block, 5));
    EXPECT_FALSE(probe_.may_write(block.data));
    EXPECT_FALSE(probe_.may_write(block.data + size.count() - 1));
    binding_.make_writable(block);
    EXPECT_TRUE(probe_.may_write(block.data));
    EXPECT_TRUE(probe_.may_write(block.data + size.count() - 1));
    page_out(block);
    page_in(block, 6, Access::kWrite);
    EXPECT_TRUE(probe_.may_write(block.data));
    EXPECT_TRUE(is_all(block, 6));
  }
}

TEST_P(StableBindingTest, PagesInFromManySmallPiecesAndFreshOnes) {
  Block large;
  acquire(large, 1_MiB);
  page_out(large);
  binding_.trim_pool(0_B);
  Block small[12];
  for (Block& block : small) acquire(block, 16_KiB);
  for (Block& block : small) page_out(block);
  EXPECT_EQ(binding_.pooled(), 192_KiB);
  page_in(large, 9, Access::kRead);
  EXPECT_TRUE(is_all(large, 9));
  EXPECT_EQ(resident(), 1_MiB + binding_.pooled());
}

TEST_P(StableBindingTest, ANewBlockTakesPooledPagesWhereThereIsNoRoomForMore) {
  Block first;
  acquire(first, 1_MiB);
  binding_.release(first);
  Block second;
  acquire(second, 512_KiB, 256_KiB);
  EXPECT_LE(binding_.pooled(), 256_KiB);
  EXPECT_EQ(resident(), 512_KiB + binding_.pooled());
  std::memset(second.data, 1, 512 << 10);
  EXPECT_EQ(resident(), 512_KiB + binding_.pooled());
}

TEST_P(StableBindingTest, ANewBlockIsWhereThePooledPagesAreThatCoverIt) {
  Block first;
  acquire(first, 1_MiB);
  binding_.release(first);
  const std::uint64_t calls = binding_.system_calls();
  Block second, third;
  acquire(second, 256_KiB, 768_KiB);
  acquire(third, 768_KiB, 0_B);
  EXPECT_EQ(second.data, first.data + (768 << 10));
  EXPECT_EQ(third.data, first.data);
  EXPECT_EQ(binding_.system_calls(), calls);
  EXPECT_EQ(resident(), 1_MiB);
  page_out(second);
  EXPECT_TRUE(probe_.may_write(third.data + (768 << 10) - 1));
  EXPECT_FALSE(probe_.may_read(second.data));
}

TEST_P(StableBindingTest, ThePoolGivesItsPagesBackToTheMachine) {
  Block blocks[4];
  for (Block& block : blocks) acquire(block, 64_KiB);
  for (Block& block : blocks) binding_.release(block);
  binding_.trim_pool(100_KiB);
  EXPECT_EQ(binding_.pooled(), 64_KiB);
  EXPECT_EQ(resident(), 64_KiB);
  EXPECT_FALSE(probe_.may_read(blocks[0].data));
}

TEST_P(StableBindingTest, AnAbsentBlocksAddressIsUsedAgainOnceItDies) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  binding_.trim_pool(0_B);
  Block other;
  acquire(other, 64_KiB);
  EXPECT_NE(other.data, block.data);
  binding_.release(block);
  Block next;
  acquire(next, 64_KiB);
  EXPECT_EQ(next.data, block.data);
  EXPECT_TRUE(probe_.may_write(next.data));
}

TEST_P(StableBindingTest, ACleanBlocksRangeIsWritableForTheNext) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  page_in(block, 1, Access::kRead);
  binding_.release(block);
  Block next;
  acquire(next, 64_KiB);
  EXPECT_TRUE(probe_.may_write(next.data));
}

TEST_P(StableBindingTest, PoisonsWhatGoesToThePool) {
  binding_.poison(true);
  Block block;
  acquire(block, 64_KiB);
  std::memset(block.data, 1, 64 << 10);
  page_out(block);
  Block next;
  acquire(next, 64_KiB);
  EXPECT_TRUE(is_all(next, '\xFF'));
  std::memset(next.data, 2, 64 << 10);
  binding_.release(next);
  acquire(next, 64_KiB);
  EXPECT_TRUE(is_all(next, '\xFF'));
}

INSTANTIATE_TEST_SUITE_P(Where, StableBindingTest, anywhere_and_apart(), name_of);

}  // namespace
}  // namespace tensorpager::memory
