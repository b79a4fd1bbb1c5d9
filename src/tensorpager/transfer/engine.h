// A tier below the device: it holds the bytes of paged-out storages. To add one: write x_engine.{h,cpp} beside this
// file, list it in CMakeLists.txt, and add a line to test/transfer/engine_contract_test.cpp, which every engine must
// pass.
//
// Invariants: a slot is written by one page-out at a time and read any number of times; what was paged out is read back
// byte for byte until the slot is released; page-outs are done in the order of their submission, and so are page-ins.
// An engine may finish a transfer when it is submitted (file and RAM do so) or later (QueuedEngine, over one of those);
// callers always wait for the ticket, or cancel it. Calls come from one thread at a time; transfers of the file and RAM
// tiers may also run on other threads beside any other call.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/link.h"

namespace tensorpager::transfer {

/// Space in the tier for one storage. The caller that reserved it must release it.
struct Slot {
  std::uint64_t offset = 0;  // engine's own meaning: a place in the file, in the range
  base::Bytes bytes;         // as reserved: a multiple of the page
  std::uint32_t file = 0;    // which generation of the file (see FileEngine), 0 elsewhere
};

/// A submitted transfer. Tickets of one direction are waited for in any order, each at most once if the transfer may
/// fail, and ascend in the order of submission.
struct Ticket {
  std::uint64_t number = 0;  // 0: finished already

  bool is_finished() const { return number == 0; }
  friend auto operator<=>(const Ticket&, const Ticket&) = default;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Reserves room for `bytes`, a multiple of the page. Throws IoError if the tier is full.
  virtual Slot reserve(base::Bytes bytes) = 0;
  virtual void release(const Slot& slot) noexcept = 0;

  /// Copies `from`, page-aligned and a multiple of the page long, to slot bytes [at, at + from.size()); `at` is a
  /// multiple of the page too. Throws IoError if the submission itself fails; the source bytes stay valid and the slot
  /// stays reserved.
  virtual Ticket submit_page_out(std::span<const std::byte> from, const Slot& slot, base::Bytes at) = 0;

  /// The same; the thread that copies calls `first` before. If that throws nothing is copied, and `wait` throws its
  /// exception.
  virtual Ticket submit_page_out_after(const std::function<void()>& first, std::span<const std::byte> from,
                                       const Slot& slot, base::Bytes at) {
    first();
    return submit_page_out(from, slot, at);
  }

  /// Copies slot bytes [at, at + to.size()) to `to`, aligned likewise. They must have been paged out before.
  virtual Ticket submit_page_in(const Slot& slot, base::Bytes at, std::span<std::byte> to) = 0;

  /// The same, begun only when this page-out is done: of the same bytes, or from the memory that is read into.
  virtual Ticket submit_page_in_after(Ticket page_out, const Slot& slot, base::Bytes at, std::span<std::byte> to) {
    if (!page_out.is_finished()) wait(page_out);
    return submit_page_in(slot, at, to);
  }

  /// Blocks until the transfer is done. Throws IoError if it failed.
  virtual void wait(Ticket ticket) = 0;
  /// Whether a page-out may fail after its submission: `wait` throws then, and only the memory that it was copied from
  /// has the bytes. If not, that memory may be given to others, ordered behind the copy, as soon as it is submitted.
  virtual bool may_fail_late() const = 0;
  /// Whether `wait` would not block.
  virtual bool is_done(Ticket ticket) {
    static_cast<void>(ticket);
    return true;
  }
  /// Instead of `wait`, for a transfer that is not needed any more: returns once memory and slot are no longer touched.
  /// Returns true if the transfer never began.
  virtual bool cancel(Ticket ticket) noexcept {
    static_cast<void>(ticket);
    return false;
  }

  /// Called on a transfer thread after each transfer that it made, if the engine has such threads; it must not wait for
  /// a transfer that is not done. Before the first transfer.
  virtual void set_observer(const std::function<void()>& observer) { static_cast<void>(observer); }

  /// Finishes the transfers in flight. Nothing is called between this and `after_fork`.
  virtual void before_fork() {}

  /// Called in parent and child after a fork. Slots of before the fork stay readable in
  /// both. Neither process may write where the other could still read, so they take no more page-outs: release such a
  /// slot and reserve another.
  virtual void after_fork(bool in_child) = 0;

  virtual base::Bytes reserved() const = 0;  // bytes in slots now
  /// An estimate: a transfer of n bytes takes latency + n / bytes_per_second.
  struct Rate {
    double bytes_per_second = 0;  // 0: no transfer yet, or not measured
    double latency = 0;           // seconds
  };
  /// Rates that transfers reached so far, by direction.
  struct Rates {
    Rate out;
    Rate in;
  };
  virtual Rates rates() const { return {}; }
  virtual std::string name() const = 0;  // for people: "file in /tmp", "RAM"
};

/// Paged-out bytes in a file in `directory`, unlinked at once so that a crash leaves nothing behind. Direct I/O if the
/// file system has it, else buffered. Throws IoError (naming the directory) if no file can be made there.
std::unique_ptr<Engine> make_file_engine(const std::string& directory);

/// Paged-out bytes in private anonymous memory: saves nothing on the CPU device; for tests and for emulating a device.
std::unique_ptr<Engine> make_ram_engine();

/// Transfers of `tier` on two threads, one per direction, no faster than `link`.
std::unique_ptr<Engine> make_queued_engine(std::unique_ptr<Engine> tier, base::LinkRates link = {});

}  // namespace tensorpager::transfer
