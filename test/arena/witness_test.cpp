#include "tensorpager/arena/witness.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tensorpager/arena/address_space.h"

namespace tensorpager::arena {
namespace {

using namespace base;

class WitnessTest : public testing::Test {
 protected:
  /// A block whose first `populated` bytes are resident.
  std::byte* make(Bytes size, Bytes populated) {
    std::byte* block = space_.take(size);
    EXPECT_EQ(mprotect(block, size.count(), PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(madvise(block, size.count(), MADV_NOHUGEPAGE), 0);
    for (std::uint64_t at = 0; at < populated.count(); at += kPage.count()) block[at] = std::byte{1};
    return block;
  }
  Bytes resident() const { return resident_size(space_.begin(), space_.end()); }

  AddressSpace space_;
};

TEST_F(WitnessTest, SeesNothingInAddressesThatAreOnlyReserved) {
  space_.take(64_MiB);
  EXPECT_EQ(resident(), 0_B);
}

TEST_F(WitnessTest, SeesPopulatedPagesAndNotTheRestOfTheirMapping) {
  make(1_MiB, 64_KiB);
  EXPECT_EQ(resident(), 64_KiB);
  make(8_MiB, 3_MiB);
  EXPECT_EQ(resident(), 64_KiB + 3_MiB);
}

TEST_F(WitnessTest, SeesWhatMayOnlyBeRead) {
  std::byte* block = make(64_KiB, 64_KiB);
  ASSERT_EQ(mprotect(block, 64 << 10, PROT_READ), 0);
  EXPECT_EQ(resident(), 64_KiB);
  ASSERT_EQ(mprotect(block, 64 << 10, PROT_NONE), 0);
  EXPECT_EQ(resident(), 64_KiB) << "inaccessible is not given back";
}

TEST_F(WitnessTest, SeesThatPagesWereGivenBack) {
  std::byte* block = make(1_MiB, 1_MiB);
  ASSERT_EQ(madvise(block, 512 << 10, MADV_DONTNEED), 0);
  EXPECT_EQ(resident(), 512_KiB);
}

TEST_F(WitnessTest, CountsTheRangeOnly) {
  std::byte* block = make(64_KiB, 64_KiB);
  make(8_MiB, 8_MiB);
  EXPECT_EQ(resident_size(block, block + (64 << 10)), 64_KiB);
}

}  // namespace
}  // namespace tensorpager::arena
