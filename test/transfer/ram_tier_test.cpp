#include "tensorpager/transfer/ram_tier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "page_buffer.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

Bytes resident_memory() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return Bytes(resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

TEST(RamTier, IsFullAtItsCapacityAndSaysWhatToTry) {
  RamTier tier(64_KiB);
  const Slot slot = tier.reserve(48_KiB);
  try {
    tier.reserve(20_KiB);
    FAIL() << "reserved more than there is";
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), ENOMEM);
    EXPECT_STREQ(error.what(),
                 "cannot reserve 20480 bytes of the RAM tier (reserve: Cannot allocate memory); page out to a file "
                 "instead, with --spill DIR");
  }
  EXPECT_EQ(tier.reserved(), 48_KiB);
  tier.release(slot);
}

TEST(RamTier, GivesMemoryBackWhenItsSlotsAreReleasedAndKeepsTheOthers) {
  RamTier tier(256_MiB);
  PageBuffer from(64_MiB, 1);
  PageBuffer page(4_KiB, 2);
  const Slot small = tier.reserve(4_KiB);
  tier.write(page.bytes(), small, 0_B);
  const Slot large = tier.reserve(64_MiB);
  tier.write(from.bytes(), large, 0_B);
  const Bytes full = resident_memory();
  tier.release(large);
  EXPECT_LT(resident_memory() + 60_MiB, full);
  PageBuffer to(4_KiB);
  tier.read(small, 0_B, to.bytes());
  EXPECT_TRUE(to.holds(2));
  tier.release(small);
}

}  // namespace
}  // namespace tensorpager::transfer
