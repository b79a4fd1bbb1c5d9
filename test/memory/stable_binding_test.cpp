// Addresses and pages by the kernel's account: what may be accessed, what stays, what is given back.
#include "tensorpager/memory/stable_binding.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "tensorpager/arena/kernel_moves.h"
#include "tensorpager/arena/witness.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::memory {
namespace {

using namespace base;
using arena::Piece;
using pager::Access;
using pager::Block;

/// Asks the kernel, which answers instead of faulting.
class AccessProbe {
 public:
  AccessProbe() { EXPECT_EQ(pipe(ends_), 0); }
  ~AccessProbe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  AccessProbe(const AccessProbe&) = delete;
  AccessProbe& operator=(const AccessProbe&) = delete;

  bool may_read(const std::byte* at) {
    if (write(ends_[1], at, 1) != 1) return false;
    char taken = 0;
    return read(ends_[0], &taken, 1) == 1;
  }
  /// Writes what is there already.
  bool may_write(std::byte* at) {
    if (write(ends_[1], at, 1) != 1) return false;
    if (read(ends_[0], at, 1) == 1) return true;
    char taken = 0;
    EXPECT_EQ(read(ends_[0], &taken, 1), 1);
    return false;
  }

 private:
  int ends_[2];
};

/// While it lives, the process may not get much more writable memory.
class DataLimit {
 public:
  explicit DataLimit(Bytes more) {
    getrlimit(RLIMIT_DATA, &old_);
    std::ifstream status("/proc/self/status");
    std::string word;
    std::uint64_t kibibytes = 0;
    while (status >> word && word != "VmData:") {
    }
    status >> kibibytes;
    const rlimit lower{.rlim_cur = kibibytes * 1024 + more.count(), .rlim_max = old_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &lower), 0);
  }
  ~DataLimit() { setrlimit(RLIMIT_DATA, &old_); }
  DataLimit(const DataLimit&) = delete;
  DataLimit& operator=(const DataLimit&) = delete;

 private:
  rlimit old_{};
};

class StableBindingTest : public testing::Test {
 protected:
  void acquire(Block& block, Bytes size, Bytes allowance = kUnlimited) {
    block.size = size;
    block.charged = binding_.charge_for(size);
    block.data = binding_.acquire(block.charged, allowance);
  }
  void page_out(Block& block) {
    binding_.begin_page_out(block);
    relocate(binding_.begin_unbind(block));
    block.word = pager::kAbsent;
  }
  /// Fills what is staged with `mark`.
  void page_in(Block& block, char mark, Access access) {
    const std::vector<Piece> pieces = binding_.stage(block, kUnlimited);
    for (const Piece& piece : pieces) std::memset(piece.at, mark, piece.bytes.count());
    relocate(binding_.begin_bind(block, pieces, access));
    block.word = access == Access::kRead ? pager::kClean : 0;
  }
  void relocate(const pager::Relocation& relocation) {
    binding_.relocate(relocation);
    binding_.end_relocation(relocation);
  }
  static bool is_all(const Block& block, char mark) {
    return std::all_of(block.data, block.data + block.charged.count(),
                       [&](std::byte b) { return b == std::byte(mark); });
  }
  Bytes resident() const { return arena::resident_size(space_.begin(), space_.end()); }

  arena::AddressSpace space_;
  StableBinding binding_{space_};
  AccessProbe probe_;
};

TEST_F(StableBindingTest, ChargesWholePages) {
  EXPECT_EQ(binding_.charge_for(1_B), 4_KiB);
  EXPECT_EQ(binding_.charge_for(16_KiB), 16_KiB);
  EXPECT_EQ(binding_.charge_for(Bytes(16385)), 20_KiB);
}

TEST_F(StableBindingTest, ANewBlockIsPopulatedAndWritable) {
  for (const Bytes size : {16_KiB, 5_MiB}) {
    Block block;
    const Bytes before = resident();
    acquire(block, size);
    EXPECT_EQ(resident(), before + size);
    std::memset(block.data, 1, size.count());
    EXPECT_EQ(resident(), before + size);
  }
}

TEST_F(StableBindingTest, CountsTheFreshPagesThatItTakes) {
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

TEST_F(StableBindingTest, LargeBlocksKeepHugePagesWhileTheyAndSmallOnesTakeTurns) {
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

TEST_F(StableBindingTest, AnEvictedBlockIsInaccessibleAndItsPagesArePooled) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  EXPECT_FALSE(probe_.may_read(block.data));
  EXPECT_FALSE(probe_.may_read(block.data + (64 << 10) - 1));
  EXPECT_EQ(binding_.pooled(), 64_KiB);
  EXPECT_EQ(resident(), 64_KiB);
}

TEST_F(StableBindingTest, ABlockUnderPageOutMayOnlyBeRead) {
  Block block;
  acquire(block, 64_KiB);
  std::memset(block.data, 7, 64 << 10);
  binding_.begin_page_out(block);
  EXPECT_TRUE(probe_.may_read(block.data));
  EXPECT_FALSE(probe_.may_write(block.data));
  binding_.cancel_page_out(block);
  EXPECT_TRUE(probe_.may_write(block.data));
  EXPECT_TRUE(is_all(block, 7));
}

TEST_F(StableBindingTest, ReadInBlocksAreReadOnlyUntilTheyAreMadeWritable) {
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

TEST_F(StableBindingTest, PagesInFromManySmallPiecesAndFreshOnes) {
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

TEST_F(StableBindingTest, ANewBlockTakesPooledPagesWhereThereIsNoRoomForMore) {
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

TEST_F(StableBindingTest, ANewBlockIsWhereThePooledPagesAreThatCoverIt) {
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

/// One absent block of 1 MiB, and its pages pooled as 8 neighbours, each a mapping of its own.
class AcrossMappings : public StableBindingTest {
 protected:
  static constexpr std::size_t kParts = 8, kPart = 128 << 10;

  void SetUp() override {
    if (!arena::kernel_moves_across_mappings()) GTEST_SKIP() << "the kernel moves one mapping only";
    acquire(block_, Bytes(kParts * kPart));
    page_out(block_);
    binding_.trim_pool(0_B);
    Block blocks[kParts];
    for (Block& block : blocks) acquire(block, Bytes(kPart));
    for (std::size_t i = 0; i < kParts; i += 2) page_out(blocks[i]);
    for (std::size_t i = 1; i < kParts; i += 2) page_out(blocks[i]);
    ASSERT_EQ(binding_.pooled(), block_.charged);
  }
  /// Pages in, with other bytes in each part; the number of system calls.
  std::uint64_t page_in_parts(Access access) {
    const std::vector<Piece> pieces = binding_.stage(block_, kUnlimited);
    EXPECT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces[0].bytes, block_.charged);
    for (std::size_t i = 0; i < kParts; ++i) std::memset(pieces[0].at + i * kPart, static_cast<int>(i + 1), kPart);
    const std::uint64_t before = binding_.system_calls();
    relocate(binding_.begin_bind(block_, pieces, access));
    block_.word = access == Access::kRead ? pager::kClean : 0;
    return binding_.system_calls() - before;
  }
  void expect_parts() const {
    for (std::size_t i = 0; i < kParts * kPart; i += 64)
      ASSERT_EQ(block_.data[i], std::byte(static_cast<unsigned char>(i / kPart + 1))) << i;
  }

  Block block_;
};

TEST_F(AcrossMappings, NeighboursInThePoolAreMovedInOneCall) {
  EXPECT_EQ(page_in_parts(Access::kWrite), 2u) << "the move, and making inaccessible what it left";
  expect_parts();
  EXPECT_TRUE(probe_.may_write(block_.data + kParts * kPart - 1));
  EXPECT_EQ(resident(), block_.charged);
  EXPECT_EQ(binding_.populated(), block_.charged + block_.charged);
  const std::uint64_t before = binding_.system_calls();
  page_out(block_);
  EXPECT_EQ(binding_.system_calls() - before, 5u) << "its many mappings cost no more than one";
  EXPECT_EQ(binding_.pooled(), block_.charged);
  EXPECT_FALSE(probe_.may_read(block_.data));
}

TEST_F(AcrossMappings, AMoveThatFailsHalfWayIsFinished) {
  {
    const DataLimit limit(Bytes(kPart * 5 / 2));
    EXPECT_EQ(page_in_parts(Access::kWrite), 5u) << "close, move the rest, open";
  }
  expect_parts();
  for (std::size_t i = 0; i < kParts; ++i) EXPECT_TRUE(probe_.may_write(block_.data + i * kPart));
  EXPECT_EQ(resident(), block_.charged);
  page_out(block_);
  EXPECT_EQ(binding_.pooled(), block_.charged);
  page_in_parts(Access::kRead);
  expect_parts();
  EXPECT_FALSE(probe_.may_write(block_.data));
}

TEST_F(StableBindingTest, ThePoolGivesItsPagesBackToTheMachine) {
  Block blocks[4];
  for (Block& block : blocks) acquire(block, 64_KiB);
  for (Block& block : blocks) binding_.release(block);
  binding_.trim_pool(100_KiB);
  EXPECT_EQ(binding_.pooled(), 64_KiB);
  EXPECT_EQ(resident(), 64_KiB);
  EXPECT_FALSE(probe_.may_read(blocks[0].data));
}

TEST_F(StableBindingTest, AnAbsentBlocksAddressIsUsedAgainOnceItDies) {
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

TEST_F(StableBindingTest, ACleanBlocksRangeIsWritableForTheNext) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  page_in(block, 1, Access::kRead);
  binding_.release(block);
  Block next;
  acquire(next, 64_KiB);
  EXPECT_TRUE(probe_.may_write(next.data));
}

TEST_F(StableBindingTest, PoisonsWhatGoesToThePool) {
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

/// Somebody has unmapped a page of ours, so that the machine refuses to change its protection.
class Hole {
 public:
  explicit Hole(std::byte* at) : at_(at) { EXPECT_EQ(munmap(at, kPage.count()), 0); }
  ~Hole() {
    EXPECT_EQ(mmap(at_, kPage.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at_);
  }
  Hole(const Hole&) = delete;
  Hole& operator=(const Hole&) = delete;

 private:
  std::byte* at_;
};

TEST_F(StableBindingTest, PagesThatTheMachineDoesNotLetGoAreWhereTheyWere) {
  Block block;
  acquire(block, 64_KiB);
  std::memset(block.data, 7, 64 << 10);
  std::byte* next = space_.take(64_KiB);
  space_.give_back(next, 64_KiB);
  {
    const Hole hole(block.data);
    const pager::Relocation pages = binding_.begin_unbind(block);
    EXPECT_THROW(binding_.relocate(pages), IoError);
    binding_.cancel_relocation(pages);
  }
  EXPECT_EQ(space_.take(64_KiB), next) << "addresses were lost";
  EXPECT_EQ(block.data[4096], std::byte{7});
  EXPECT_TRUE(probe_.may_write(block.data + 4096));
  EXPECT_EQ(binding_.pooled(), 0_B);
}

TEST_F(StableBindingTest, PagesThatTheMachineDoesNotPlaceAreGivenBack) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  const std::vector<Piece> pieces = binding_.stage(block, kUnlimited);
  {
    const Hole hole(pieces[0].at);
    const pager::Relocation pages = binding_.begin_bind(block, pieces, Access::kRead);
    EXPECT_THROW(binding_.relocate(pages), IoError);
    binding_.cancel_relocation(pages);
    EXPECT_FALSE(probe_.may_read(pieces[0].at + 4096));
  }
  EXPECT_FALSE(probe_.may_read(block.data));
  EXPECT_EQ(resident(), 0_B);
  EXPECT_EQ(binding_.pooled(), 0_B);
}

TEST_F(StableBindingTest, ARefusalByTheMachineLeavesEverythingAsItWas) {
  Block absent;
  acquire(absent, 32_MiB);
  page_out(absent);
  binding_.trim_pool(0_B);
  std::byte* next = space_.take(32_MiB);
  space_.give_back(next, 32_MiB);
  std::byte* next_chunk = space_.take_slab_chunk(16_MiB);
  space_.give_back(next_chunk, 16_MiB);
  {
    const DataLimit limit(4_MiB);
    EXPECT_THROW(binding_.acquire(32_MiB, kUnlimited), IoError);
    EXPECT_THROW(binding_.stage(absent, kUnlimited), IoError);
    EXPECT_THROW(binding_.acquire_slab_chunk(16_MiB, kUnlimited), IoError);
  }
  EXPECT_EQ(resident(), 0_B);
  EXPECT_EQ(binding_.pooled(), 0_B);
  EXPECT_EQ(space_.take(32_MiB), next) << "addresses were lost";
  EXPECT_EQ(space_.take_slab_chunk(16_MiB), next_chunk) << "addresses were lost";
}

}  // namespace
}  // namespace tensorpager::memory
