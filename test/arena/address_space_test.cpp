#include "tensorpager/arena/address_space.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {
namespace {

using namespace base;

bool is_aligned(const void* address, Bytes alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment.count() == 0;
}

class AddressSpaceTest : public testing::Test {
 protected:
  AddressSpace space_;
  int owners_[3] = {};  // any addresses that differ
};

TEST_F(AddressSpaceTest, AlignsSmallBlocksToPagesAndLargeOnesToHugePages) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_aligned(space_.take(4_KiB), kPage));
    EXPECT_TRUE(is_aligned(space_.take(2_MiB - 4_KiB), kPage));
    EXPECT_TRUE(is_aligned(space_.take(2_MiB), kHugePage));
    EXPECT_TRUE(is_aligned(space_.take(2_MiB + 4_KiB), kHugePage));
  }
}

TEST_F(AddressSpaceTest, AlignsSlabChunksToTheirSize) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_aligned(space_.take_slab_chunk(64_KiB), 64_KiB));
}

TEST_F(AddressSpaceTest, TellsSlabsFromBlocksAndOursFromUnplannedBlocks) {
  const std::byte* chunk = space_.take_slab_chunk(64_KiB);
  EXPECT_TRUE(space_.is_slab(chunk));
  EXPECT_TRUE(space_.is_slab(chunk + 65535));
  for (const Bytes size : {4_KiB, 8_MiB}) {
    const std::byte* block = space_.take(size);
    EXPECT_FALSE(space_.is_slab(block));
    EXPECT_TRUE(space_.contains(block));
  }
  EXPECT_TRUE(space_.contains(space_.begin()));
  EXPECT_TRUE(space_.contains(space_.end() - 1));
  EXPECT_FALSE(space_.contains(space_.begin() - 1));
  EXPECT_FALSE(space_.contains(space_.end()));
  EXPECT_FALSE(space_.contains(&space_));
  EXPECT_FALSE(space_.contains(nullptr));
}

TEST_F(AddressSpaceTest, GivesWhatCameBackAgainAndNeverTheSameTwice) {
  for (const Bytes size : {64_KiB, 6_MiB}) {
    std::byte* first = space_.take(size);
    std::byte* second = space_.take(size);
    EXPECT_TRUE(second >= first + size.count() || first >= second + size.count());
    space_.give_back(first, size);
    EXPECT_EQ(space_.take(size), first);
    space_.give_back(first, size);
    space_.give_back(second, size);
  }
  std::byte* chunk = space_.take_slab_chunk(64_KiB);
  space_.give_back(chunk, 64_KiB);
  EXPECT_EQ(space_.take_slab_chunk(64_KiB), chunk);
}

TEST_F(AddressSpaceTest, JoinsPartsThatCameBackApart) {
  std::byte* whole = space_.take(1_MiB);
  space_.take(4_KiB);
  space_.give_back(whole + (512 << 10), 512_KiB);
  space_.give_back(whole, 512_KiB);
  EXPECT_EQ(space_.take(1_MiB), whole);
}

TEST_F(AddressSpaceTest, GivesInaccessibleAddresses) {
  std::byte* block = space_.take(16_KiB);
  unsigned char resident[4] = {};
  // mincore answers for mapped addresses only: ours are, and hold nothing.
  ASSERT_EQ(mincore(block, 16 << 10, resident), 0);
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 0);
  EXPECT_DEATH(*static_cast<volatile char*>(static_cast<void*>(block)) = 1, "");
}

TEST_F(AddressSpaceTest, FindsTheOwnerOfExactlyAFirstPage) {
  std::byte* first = space_.take(8_KiB);
  std::byte* second = space_.take(8_KiB);
  EXPECT_EQ(space_.owner_at(first), nullptr);
  space_.set_owner(first, &owners_[0]);
  space_.set_owner(second, &owners_[1]);
  EXPECT_EQ(space_.owner_at(first), &owners_[0]);
  EXPECT_EQ(space_.owner_at(second), &owners_[1]);
  EXPECT_EQ(space_.owner_at(first + 4096), nullptr);
  space_.set_owner(first, nullptr);
  EXPECT_EQ(space_.owner_at(first), nullptr);
  EXPECT_EQ(space_.owner_at(second), &owners_[1]);
}

TEST_F(AddressSpaceTest, FindsTheOwnerOfInnerAddresses) {
  for (const Bytes size : {12_KiB, 200_MiB}) {
    std::byte* block = space_.take(size);
    space_.set_owner(block, &owners_[0]);
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, size.count() / 2, size.count() - 1})
      EXPECT_EQ(space_.owner_before(block + at), &owners_[0]) << at << " of " << size.count();
  }
}

//  | block | hole | block |     an address in the hole belongs to what is before it: the caller knows how far that goes
TEST_F(AddressSpaceTest, WalksBackOverHolesAndStaysInTheZone) {
  std::byte* first = space_.take(8_KiB);
  std::byte* hole = space_.take(64_KiB);
  std::byte* last = space_.take(8_KiB);
  std::byte* large = space_.take(4_MiB);
  EXPECT_EQ(space_.owner_before(hole), nullptr);
  space_.set_owner(first, &owners_[0]);
  space_.set_owner(last, &owners_[1]);
  EXPECT_EQ(space_.owner_before(hole + 4096), &owners_[0]);
  EXPECT_EQ(space_.owner_before(last + 4096), &owners_[1]);
  EXPECT_EQ(space_.owner_before(large), nullptr) << "small blocks own nothing among the large";
}

TEST_F(AddressSpaceTest, KnowsNoOwnerWhereNothingWasTakenYet) {
  EXPECT_EQ(space_.owner_before(space_.begin()), nullptr);
  EXPECT_EQ(space_.owner_before(space_.end() - 1), nullptr);
}

TEST_F(AddressSpaceTest, RefusesMoreThanAZoneHoldsAndGoesOn) {
  EXPECT_THROW(space_.take(600_GiB), IoError);
  EXPECT_NE(space_.take(4_KiB), nullptr);
  EXPECT_NE(space_.take(100_GiB), nullptr);
}

TEST(AddressSpaceApart, TheKernelPutsNoMappingThereByItsOwnChoice) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer decides where the addresses are";
#endif
  AddressSpace spaces[2];  // the second one finds the place of the first one taken
  for (AddressSpace& space : spaces) {
    ASSERT_TRUE(space.is_apart());
    std::byte* const hole = space.take(64_MiB);
    ASSERT_EQ(munmap(hole, Bytes(64_MiB).count()), 0);
    std::vector<void*> mapped;
    for (int i = 0; i < 100; ++i) {
      mapped.push_back(mmap(nullptr, Bytes(64_MiB).count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      EXPECT_FALSE(space.contains(mapped.back())) << i;
    }
    for (void* one : mapped) munmap(one, Bytes(64_MiB).count());
  }
}

TEST(AddressSpaceApart, AnywhereIsWhereTheKernelPutsIt) {
  AddressSpace space(AddressSpace::Where::kAnywhere);
  EXPECT_FALSE(space.is_apart());
  space.take(4_KiB);
}

}  // namespace
}  // namespace tensorpager::arena
