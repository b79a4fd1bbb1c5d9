// Transfers to and from a tier as the pager submits them: page-outs in one queue, page-ins in another.
//
// Invariants: page-outs are done in the order of their submission, and so are page-ins. A transfer is done when it is
// submitted (make_synchronous_queues) or later (make_threaded_queues); callers always wait for the ticket, or cancel
// it. Calls come from one thread at a time. Every implementation passes test/transfer/queues_contract.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/link.h"
#include "tensorpager/device/timeline.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

using device::Fence;
/// A submitted transfer. Tickets of one queue are waited for in any order, each at most once if the transfer may fail.
using device::Ticket;

/// Memory to a slot.
struct PageOut {
  std::function<void()> first = {};  // called before by the thread that copies; if it throws nothing is copied
  Fence after = {};                  // it begins only when this is done: a device's work on the bytes
  std::span<const std::byte> from;   // as Tier::write takes it
  Slot slot;
  base::Bytes at = {};  // in the slot
};

/// A slot to memory.
struct PageIn {
  /// It begins only when these are done: page-outs of the same bytes, and all work on the memory that is read into. If
  /// a page-out that the fence covers has failed, and nobody had waited for that when this was submitted, nothing is
  /// read. A page-in that failed before it does not matter to it.
  Fence after = {};
  Slot slot;
  base::Bytes at = {};                   // in the slot
  std::vector<std::span<std::byte>> to;  // filled one after the other, each as Tier::read takes it
  std::function<void()> then = {};       // called by the thread that copies, once all is read
};

class Queues : public device::Timeline {
 public:
  /// Slots of the tier, as Tier has them. The slot of a transfer is released only once that is done or cancelled.
  virtual Slot reserve(base::Bytes bytes) = 0;
  virtual void release(const Slot& slot) noexcept = 0;

  /// The submission or `wait` throws what `first`, the tier or `then` throws, and what a page-out threw because of
  /// which nothing is read. After a failed page-out the source bytes are valid, and the slot stays reserved.
  virtual Ticket submit(PageOut transfer) = 0;
  virtual Ticket submit(PageIn transfer) = 0;

  /// Blocks until the transfer is done. Throws IoError if it failed.
  virtual void wait(Ticket ticket) = 0;
  /// Instead of `wait`, for a transfer that is not needed any more: returns once memory and slot are no longer touched.
  /// Returns true if the transfer never began.
  virtual bool cancel(Ticket ticket) noexcept = 0;
  /// Whether a page-out may fail after its submission: `wait` throws then, and only the memory that it was copied from
  /// has the bytes. If not, that memory may be given to others, ordered behind the copy, as soon as it is submitted.
  virtual bool may_fail_late() const = 0;

  /// Finishes the transfers in flight. Nothing is called between this and `after_fork`.
  virtual void before_fork() = 0;
  /// Called in parent and child after a fork. For slots of before the fork see Tier::after_fork.
  virtual void after_fork(bool in_child) = 0;

  virtual base::Bytes reserved() const = 0;  // bytes in slots now
  virtual base::Bytes pinned() const = 0;    // bytes of pinned memory taken for slots and copies
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
  virtual Rates rates() const = 0;
  virtual std::string name() const = 0;  // for people: the tier's, with the link if that is limited
};

/// Transfers are done when they are submitted, by the thread that submits them. Rates are not measured.
std::unique_ptr<Queues> make_synchronous_queues(std::unique_ptr<Tier> tier);

/// Transfers run on two threads, one per direction, no faster than `link`.
std::unique_ptr<Queues> make_threaded_queues(std::unique_ptr<Tier> tier, base::LinkRates link = {});

}  // namespace tensorpager::transfer
