// Keeps account of what is resident, and moves blocks. It never plans: an action source or, on demand, a policy says
// what to page out, the binding moves pages, the tier moves bytes, the ledger counts.
//
// This class is the session, over a few parts that share one core. What there is to ask stands in the parts.
//
// Locking: one mutex covers everything but the state words of blocks. Pinning a resident block takes no lock; a block
// is made absent only under the lock and only from a word without pins. No foreign code runs under the lock, and a
// public function that throws has released it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/base/event_sink.h"
#include "tensorpager/pager/accounts.h"
#include "tensorpager/pager/admission.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/dropped_blocks.h"
#include "tensorpager/pager/eviction_policy.h"
#include "tensorpager/pager/following.h"
#include "tensorpager/pager/op_boundaries.h"
#include "tensorpager/pager/ordering.h"
#include "tensorpager/pager/outside_access.h"
#include "tensorpager/pager/storages.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

class Pager {
 public:
  struct Options {
    base::Bytes budget = base::kUnlimited;
    std::optional<std::uint64_t> fuzz;  // seed
    std::uint64_t fuzz_evictions = 2;   // tries at each op boundary
    std::uint64_t fuzz_drops = 0;       // the same, of blocks that can be rebuilt
    std::uint64_t witness_ops = 0;      // 0: never ask the kernel
    bool curve = false;
  };

  Pager(arena::AddressSpace& space, Binding& binding, std::unique_ptr<EvictionPolicy> policy);
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;
  ~Pager();

  // --- its parts
  Accounts& accounts() { return accounts_; }
  Admission& admission() { return admission_; }
  OpBoundaries& boundaries() { return boundaries_; }
  DroppedBlocks& dropped() { return dropped_; }
  Following& following() { return following_; }
  Ordering& ordering() { return ordering_; }
  OutsideAccess& outside() { return outside_; }
  Pins& pins() { return core_.pins; }
  Storages& storages() { return storages_; }

  // --- the session
  /// Starts a session: statistics from zero, this budget, these queues over a tier. What the program holds from an
  /// earlier session stays charged, and is paged out as far as the budget requires. Throws OverBudget, IoError.
  void start(const Options& options, std::unique_ptr<transfer::Queues> queues);
  /// Ends it: pages everything in and lifts the budget. Throws IoError if bytes cannot be read back.
  void stop();
  /// Rebuilds all that is dropped, and lets the fuzzer drop no more. Throws as `Rebuilder::rebuild`.
  void end_drops();
  /// Pages out every block that is not pinned, and cancels the page-ins that a plan has queued (tests).
  void page_out_all();

  base::Bytes budget() const { return core_.ledger().budget(); }
  /// What ops can have of it.
  base::Bytes budget_of_ops() const { return budget() - std::min(budget(), storages_.acquired_for_good()); }
  /// Bytes charged for a block of `size` bytes.
  base::Bytes charge_for(base::Bytes size) const { return core_.binding.charge_for(size); }
  bool is_placed() const { return core_.placed != nullptr; }
  /// Whether blocks are in a device's memory.
  bool is_on_device() const { return core_.is_on_device(); }

  /// Sends all events to this sink from now on, beginning with the births of the blocks that exist; null: to none. It
  /// must live for ever, as ops of other threads may be in it.
  void set_sink(base::EventSink* sink);
  base::EventSink* sink() const { return core_.sink.load(std::memory_order_acquire); }
  /// See Relief.
  void set_relief(bool (*relief)()) { core_.relief.set(relief); }

  void before_fork();
  void after_fork(bool in_child);
  /// How often the lock was taken so far (tests).
  std::uint64_t locks_taken() const { return core_.mutex.taken(); }

 private:
  void fit_into_budget();
  void page_all_in();

  Core core_;
  Accounts accounts_{core_};
  OpBoundaries boundaries_{core_};
  DroppedBlocks dropped_{core_};
  Admission admission_{core_, dropped_};
  Ordering ordering_{core_};
  Following following_{core_, admission_, ordering_, dropped_};
  OutsideAccess outside_{core_};
  Storages storages_{core_, following_};
};

}  // namespace tensorpager::pager
