// What the kernel does with many mappings at once, and what holds where it refuses.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "stable_binding_fixture.h"
#include "tensorpager/arena/kernel_moves.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::memory {
namespace {

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
    const std::vector<Piece> pieces = binding_.stage(block_, {.bytes = block_.charged}, kUnlimited);
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

TEST_P(AcrossMappings, NeighboursInThePoolAreMovedInOneCall) {
  EXPECT_EQ(page_in_parts(Access::kWrite), 2u) << "the move, and making inaccessible what it left";
  expect_parts();
  EXPECT_TRUE(probe_.may_write(block_.data + kParts * kPart - 1));
  EXPECT_EQ(resident(), block_.charged);
  EXPECT_EQ(binding_.populated(), block_.charged + block_.charged);
  const std::uint64_t before = binding_.system_calls();
  page_out(block_);
  EXPECT_EQ(binding_.system_calls() - before, space_.is_apart() ? 4u : 5u)
      << "read-only, move, close, open, and closed first elsewhere: its many mappings cost no more than one";
  EXPECT_EQ(binding_.pooled(), block_.charged);
  EXPECT_FALSE(probe_.may_read(block_.data));
}

TEST_P(AcrossMappings, AMoveThatFailsHalfWayIsFinished) {
  {
    const DataLimit limit(Bytes(kPart * 5 / 2));
    EXPECT_EQ(page_in_parts(Access::kWrite), space_.is_apart() ? 2u : 5u)
        << "close, move the rest, open; but memory that is unmapped as it goes is not counted twice";
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

INSTANTIATE_TEST_SUITE_P(Where, AcrossMappings, anywhere_and_apart(), name_of);

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

TEST_P(StableBindingTest, PagesThatTheMachineDoesNotLetGoAreWhereTheyWere) {
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

TEST_P(StableBindingTest, PooledPagesThatTheMachineDoesNotMoveArePooledStill) {
  Block blocks[3], fresh;
  for (Block& block : blocks) acquire(block, 64_KiB);
  binding_.release(blocks[0]);
  binding_.release(blocks[2]);
  std::byte* next = space_.take(128_KiB);
  space_.give_back(next, 128_KiB);
  fresh.charged = 128_KiB;
  {
    const Hole first(blocks[0].data), second(blocks[2].data);
    EXPECT_THROW(binding_.acquire(fresh, {}, 0_B), IoError);
  }
  EXPECT_EQ(binding_.pooled(), 128_KiB);
  EXPECT_EQ(binding_.acquire(fresh, {}, 0_B), next) << "addresses were lost";
  EXPECT_EQ(binding_.pooled(), 0_B);
}

TEST_P(StableBindingTest, PagesThatTheMachineDoesNotPlaceAreGivenBack) {
  Block block;
  acquire(block, 64_KiB);
  page_out(block);
  const std::vector<Piece> pieces = binding_.stage(block, {.bytes = block.charged}, kUnlimited);
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

TEST_P(StableBindingTest, ARefusalByTheMachineLeavesEverythingAsItWas) {
  Block absent, fresh;
  fresh.charged = 32_MiB;
  acquire(absent, 32_MiB);
  page_out(absent);
  binding_.trim_pool(0_B);
  std::byte* next = space_.take(32_MiB);
  space_.give_back(next, 32_MiB);
  std::byte* next_chunk = space_.take_slab_chunk(16_MiB);
  space_.give_back(next_chunk, 16_MiB);
  {
    const DataLimit limit(4_MiB);
    EXPECT_THROW(binding_.acquire(fresh, {}, kUnlimited), IoError);
    EXPECT_THROW(binding_.stage(absent, {.bytes = absent.charged}, kUnlimited), IoError);
    EXPECT_THROW(binding_.acquire_slab_chunk({.bytes = 16_MiB}, kUnlimited), IoError);
  }
  EXPECT_EQ(resident(), 0_B);
  EXPECT_EQ(binding_.pooled(), 0_B);
  EXPECT_EQ(space_.take(32_MiB), next) << "addresses were lost";
  EXPECT_EQ(space_.take_slab_chunk(16_MiB), next_chunk) << "addresses were lost";
}

}  // namespace
}  // namespace tensorpager::memory
