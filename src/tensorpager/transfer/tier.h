// A tier holds the bytes of paged-out storages, in slots. To add one: write x_tier.{h,cpp} beside this file, declare
// its make_x_tier below, list the source in CMakeLists.txt, and add a line to test/transfer/tier_contract_test.cpp,
// which every tier must pass.
//
// Invariants: a slot is written by one call at a time and read any number of times; what was written is read back byte
// for byte until the slot is released.
//
// Threads: `write` and `read` may run on several threads, beside each other and beside any call for other slots. All
// other calls come from one thread at a time. While the process forks, no call is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensorpager/base/bytes.h"

namespace tensorpager::transfer {

/// Space in the tier for one storage. The caller that reserved it must release it.
struct Slot {
  std::uint64_t offset = 0;  // the tier's own meaning: a place in the file, in the range
  base::Bytes bytes;         // as reserved: a multiple of the page
  std::uint32_t file = 0;    // which generation of the file (see FileTier), 0 elsewhere
};

class Tier {
 public:
  virtual ~Tier() = default;

  /// Reserves room for `bytes`, a multiple of the page. Throws IoError if the tier is full.
  virtual Slot reserve(base::Bytes bytes) = 0;
  virtual void release(const Slot& slot) noexcept = 0;

  /// Copies `from`, page-aligned and a multiple of the page long, to slot bytes [at, at + from.size()); `at` is a
  /// multiple of the page too. Throws IoError if it fails; the slot stays reserved, and those bytes of it are
  /// undefined.
  virtual void write(std::span<const std::byte> from, const Slot& slot, base::Bytes at) = 0;
  /// Copies slot bytes [at, at + to.size()) to `to`, aligned likewise. They must have been written before. Throws
  /// IoError if it fails.
  virtual void read(const Slot& slot, base::Bytes at, std::span<std::byte> to) = 0;
  /// Whether a write to a reserved slot may fail.
  virtual bool may_fail_late() const = 0;

  /// Called in parent and child after a fork. Slots of before the fork stay readable in both. Neither process may write
  /// where the other could still read, so they are not written any more: release such a slot and reserve another.
  virtual void after_fork() = 0;

  virtual base::Bytes reserved() const = 0;  // bytes in slots now
  virtual std::string name() const = 0;      // for people: "file in /tmp", "RAM"
};

/// Bytes in a file in `directory`, unlinked at once so that a crash leaves nothing behind. Direct I/O if the file
/// system has it, else buffered. Throws IoError (naming the directory) if no file can be made there.
std::unique_ptr<Tier> make_file_tier(const std::string& directory);

/// Bytes in private anonymous memory: saves nothing on the CPU device; for tests and for emulating a device.
std::unique_ptr<Tier> make_ram_tier();

}  // namespace tensorpager::transfer
