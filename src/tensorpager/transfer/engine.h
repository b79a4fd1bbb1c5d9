// A tier below the device: where the bytes of paged-out storages are. To add one: write x_engine.{h,cpp} beside this
// file, list it in CMakeLists.txt, and add a line to test/transfer/engine_contract_test.cpp, which every engine must
// pass.
//
// Invariants: a slot is written by one page-out at a time and read any number of times; what was paged out is read back
// byte for byte until the slot is released; page-outs are done in the order of their submission, and so are page-ins.
// An engine may finish a transfer when it is submitted (file and RAM do so now) or later; callers always wait for the
// ticket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensorpager/base/bytes.h"

namespace tensorpager::transfer {

/// Room below for one storage. Owned by whoever reserved it, who must release it.
struct Slot {
  std::uint64_t offset = 0;  // engine's own meaning: a place in the file, in the range
  base::Bytes bytes;         // as reserved: a multiple of the page
  std::uint32_t file = 0;    // which generation of the file (see FileEngine), 0 elsewhere
};

/// A submitted transfer. Tickets of one direction are waited for in any order, each at most once.
struct Ticket {
  std::uint64_t number = 0;  // 0: finished already
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Room for `bytes`, a multiple of the page. Throws IoError when the tier is full.
  virtual Slot reserve(base::Bytes bytes) = 0;
  virtual void release(const Slot& slot) noexcept = 0;

  /// Copies `from`, page-aligned and a multiple of the page long, to slot bytes [at, at + from.size()); `at` is a
  /// multiple of the page too. Throws IoError if the submission itself fails; the source bytes stay valid and the slot
  /// stays reserved.
  virtual Ticket submit_page_out(std::span<const std::byte> from, const Slot& slot, base::Bytes at) = 0;

  /// Copies slot bytes [at, at + to.size()) to `to`, aligned likewise. They must have been paged out before.
  virtual Ticket submit_page_in(const Slot& slot, base::Bytes at, std::span<std::byte> to) = 0;

  /// Blocks until the transfer is done. Throws IoError if it failed.
  virtual void wait(Ticket ticket) = 0;

  /// Called in parent and child after a fork, with no transfer under way. Slots of before the fork stay readable in
  /// both. Neither process may write where the other could still read, so they take no more page-outs: release such a
  /// slot and reserve another.
  virtual void after_fork(bool in_child) = 0;

  virtual base::Bytes reserved() const = 0;  // bytes in slots now
  virtual std::string name() const = 0;      // for people: "file in /tmp", "RAM"
};

/// Paged-out bytes in a file in `directory`, unlinked at once so that a crash leaves nothing behind. Direct I/O where
/// the file system has it, else buffered. Throws IoError (naming the directory) when no file can be made there.
std::unique_ptr<Engine> make_file_engine(const std::string& directory);

/// Paged-out bytes in private anonymous memory: saves nothing on the CPU device; for tests and for emulating a device.
std::unique_ptr<Engine> make_ram_engine();

}  // namespace tensorpager::transfer
