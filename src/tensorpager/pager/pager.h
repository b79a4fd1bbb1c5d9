// Keeps account of what is resident, and moves blocks. It never plans: an action source or, on demand, a policy says
// what to page out, the binding moves pages, the tier moves bytes, the ledger counts.
//
// Locking: one mutex covers everything but the state words of blocks. Pinning a resident block takes no lock; a block
// is made absent only under the lock and only from a word without pins. No foreign code runs under the lock, and a
// public function that throws has released it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/ledger.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/base/event_sink.h"
#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/admission.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/boundary_work.h"
#include "tensorpager/pager/costs.h"
#include "tensorpager/pager/curve.h"
#include "tensorpager/pager/eviction_policy.h"
#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/fuzzer.h"
#include "tensorpager/pager/rebuilder.h"
#include "tensorpager/pager/room.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/thread_state.h"
#include "tensorpager/pager/transfers.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

class PinSet;

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

  /// Starts a session: statistics from zero, this budget, these queues over a tier. What the program holds from an
  /// earlier session stays charged, and is paged out as far as the budget requires. Throws OverBudget, IoError.
  void start(const Options& options, std::unique_ptr<transfer::Queues> queues);
  /// Ends it: pages everything in and lifts the budget. Throws IoError if bytes cannot be read back.
  void stop();

  /// Sends all events to this sink from now on, beginning with the births of the blocks that exist; null: to none. It
  /// must live for ever, as ops of other threads may be in it.
  void set_sink(base::EventSink* sink);
  base::EventSink* sink() const { return sink_.load(std::memory_order_acquire); }
  /// Bytes charged for a block of `size` bytes.
  base::Bytes charge_for(base::Bytes size) const { return binding_.charge_for(size); }

  /// `relief` is called if a request does not fit, with no lock held: it releases pins, waiting for their holders if it
  /// must, and returns whether another try is worthwhile. Set once, before the first session.
  void set_relief(bool (*relief)()) { relief_ = relief; }

  // --- storages
  /// A block for `size` bytes (at least 1), pinned by the op that runs on this thread. Throws OverBudget, IoError.
  Block& create(base::Bytes size) {
    return with_relief([&]() -> Block& { return create_once(size); });
  }
  void destroy(Block& block) noexcept;
  /// The block that starts exactly here; null if none does. Takes no lock.
  Block* find(const void* first) const { return static_cast<Block*>(space_.owner_at(first)); }
  /// The block that contains the address; null if none of ours does.
  Block* find_around(const void* address);
  /// Names the storage that holds the block (rebinding): from now on the block may be evicted.
  void claim(Block& block, void* holder);
  /// The storage may hand its block on, so the block keeps its address. Returns false if the block is paged out.
  bool unclaim(Block& block);
  /// A charged chunk for the slabs. Throws as `create`.
  std::byte* acquire_slab_chunk(base::Bytes size) {
    return with_relief([&] { return acquire_slab_chunk_once(size); });
  }
  /// Memory that is used to the end of the process by something that keeps its address, as a library's workspace. It is
  /// charged like a slab chunk, and lies among them. Throws as `create`.
  std::byte* acquire_for_good(base::Bytes size) {
    std::byte* const at = acquire_slab_chunk(size);
    for_good_.fetch_add(size.count(), std::memory_order_relaxed);
    return at;
  }

  // --- dropped blocks
  /// From now on blocks can be dropped; it must live for ever. Null: no more are.
  void set_rebuilder(Rebuilder* rebuilder);
  /// Drops a block. Returns false if it is pinned or absent, or cannot be rebuilt. Throws IoError.
  bool drop(Block& block);
  /// Gives the dropped block of that number the memory of `fresh`, a block of the same size that only this thread has
  /// pinned and that no storage owns any more: it is dead afterwards. Returns false if no such block is dropped, as it
  /// died or was rebuilt; `fresh` is as before then. Throws IoError; then the bytes of `fresh` are lost.
  bool take_over(std::uint64_t block, Block& fresh);
  /// The numbers of all, in the order of their births.
  std::vector<std::uint64_t> dropped();
  /// Rebuilds all, and lets the fuzzer drop no more. Throws as `Rebuilder::rebuild`.
  void end_drops();

  // --- ops
  /// Counts an op; the fuzzer evicts here.
  void at_op_boundary() {
    const std::uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (boundary_work_.is_due(now)) [[unlikely]]
      do_boundary_work(now);
  }
  bool pin_if_ready(Block& block, Access access) {
    const std::uint64_t blocked = kAbsent | (access == Access::kWrite ? kClean : 0);
    std::uint64_t word = block.word.load(std::memory_order_relaxed);
    do {
      if ((word & blocked) != 0) return false;
    } while (!block.word.compare_exchange_weak(word, word + kPin, std::memory_order_acquire));
    if ((word & (kPinMask | kExportMask)) == 0) t_state.pinned += block.charged.count();  // exports count apart
    block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return true;
  }
  void unpin(Block& block) {
    const std::uint64_t bytes = block.charged.count();  // before it is unpinned: another thread may destroy it then
    const std::uint64_t word = block.word.fetch_sub(kPin, std::memory_order_acq_rel);
    if ((word & kPinMask) != kPin) return;
    if ((word & kDead) != 0) [[unlikely]] {
      if ((word & kExportMask) == 0) forget(block);
    } else if ((word & kExportMask) == 0) {
      t_state.pinned -= bytes;
    }
  }
  void admit(PinSet& pins);
  /// Whether blocks are in a device's memory.
  bool is_on_device() const { return transfers_.order().is_on_device(); }
  /// Measures ops on the device; null on a host.
  device::OpClock* op_clock() { return transfers_.order().clock(); }
  /// Work that the calling thread submits to its queue from now on uses these blocks, which it has pinned.
  void order_uses(std::span<Block* const> blocks);
  /// Work in another queue uses the block, already or from now on until it dies.
  void note_use(Block& block, device::Queue queue);
  /// What is submitted to the queue from now on comes behind all that the others were given.
  void order_queue(device::Queue waiter, device::QueueSet others);
  /// The queue in which this thread computes on a device; kNoQueue on a host.
  device::QueueSet queue_here() const;
  /// Around work of this thread for which the program has not ordered its queues. It comes behind all work on the
  /// blocks and all that the others were given by then; and what uses the blocks afterwards in any queue, and what the
  /// others are given, comes behind it. Does nothing on a host.
  void begin_out_of_order(std::span<Block* const> blocks, device::QueueSet others);
  void end_out_of_order(std::span<Block* const> blocks, device::QueueSet others) noexcept;

  // --- following a plan
  /// Calls the task once, with no lock held, when an op begins that no other op called, at least `after_ops` ops from
  /// now. It replaces the task before.
  void call_at_boundary(std::function<void()> task, std::uint64_t after_ops = 0);
  Account account();
  TransferCosts transfer_costs();
  /// Receives the live blocks, by number, with the lock held: blocks die on any thread.
  using Prepare = std::function<void(const std::unordered_map<std::uint64_t, Block*>& blocks)>;
  /// From now on notifies `source` of the ops of this thread, and executes its actions; null: works on demand. The
  /// source must outlive that. Call it between ops. `prepare` is called first.
  void follow(ActionSource* source, const Prepare& prepare = {});
  bool is_followed() const { return is_followed_.load(std::memory_order_relaxed); }
  /// An op that touches these blocks begins; unless it is unplanned, `end_op` follows. A failed transfer is tried again
  /// by the op that needs the room or the bytes. Replays that the plan has before it are run first. The blocks that
  /// `pins` has seen are admitted while the lock is held; those that cannot be are left to `admit`, which says why.
  BegunOp begin_op(const base::OpSignature& op, std::span<Block* const> touched, PinSet& pins);
  /// A replay begins that the plan has here.
  BegunOp begin_replay(const DueReplay& replay, std::span<Block* const> touched, PinSet& pins);
  /// What it makes is compared with what the program's op had made, for the statistics.
  void note_comparison();
  /// Takes the lock only if the op is a window's last one, or a replay. Else the next thread that takes it notifies the
  /// source first.
  void end_op(OpEnd end) noexcept;

  bool is_placed() const { return placed_ != nullptr; }
  /// If blocks share one arena: makes sure that what the op is likely to create finds a place, by moving its arguments
  /// together if they leave none. Nobody may have taken their addresses yet.
  void keep_room(PinSet& pins);
  /// The error for an op that needs so many bytes, when all that is not pinned or in slabs is evicted; nullopt if it
  /// fits.
  std::optional<base::OverBudget> shortage_for(base::Bytes bytes);
  void note_working_set() {
    const std::uint64_t pinned = t_state.pinned > 0 ? static_cast<std::uint64_t>(t_state.pinned) : 0;
    const std::uint64_t bytes = pinned + unevictable_.load(std::memory_order_relaxed);
    if (bytes > floor_.load(std::memory_order_relaxed)) [[unlikely]]
      floor_.store(bytes, std::memory_order_relaxed);
  }

  // --- access outside ops
  enum class FaultKind : std::uint8_t { kRead, kWrite, kUnknown };
  /// Makes the faulting address accessible. Returns false if it is not ours to serve: not a live block, or a fault in
  /// the pager itself.
  bool serve_fault(const void* address, FaultKind kind) noexcept;
  /// Keeps the block at this address resident and writable until `unpin_export`; returns null if the address is none of
  /// ours. Throws OverBudget, IoError.
  Block* pin_export(const void* address) {
    return with_relief([&] { return pin_export_once(address); });
  }
  void pin_export(Block& block) {
    with_relief([&] { pin_export_once(block); });
  }
  void unpin_export(Block& block) noexcept;

  // --- all of it
  /// Pages out every block that is not pinned, and cancels the page-ins that a plan has queued (tests).
  void page_out_all();
  Statistics statistics();
  std::vector<Curve::Point> curve();
  base::Bytes budget() const { return ledger_.budget(); }
  /// What ops can have of it.
  base::Bytes budget_of_ops() const { return budget() - std::min(budget(), base::Bytes(for_good_.load())); }
  base::Bytes charged();
  /// What is cheap to ask at any time. `recent_peak`: the most since `forget_peak`, which changes no statistics.
  struct Charges {
    base::Bytes budget, now, recent_peak;
    std::size_t live_blocks = 0;
  };
  Charges charges();
  void forget_peak();

  void before_fork();
  void after_fork(bool in_child);

  /// How often the lock was taken so far (tests).
  std::uint64_t locks_taken() const { return locks_taken_.load(std::memory_order_relaxed); }

 private:
  class Lock;

  template <typename Attempt>
  std::invoke_result_t<Attempt> with_relief(Attempt&& attempt) {
    for (;;) {
      const std::uint64_t floor = floor_.load(std::memory_order_relaxed);
      try {
        return attempt();
      } catch (const base::OverBudget& error) {
        if (relief_ == nullptr || error.asked() > error.budget() || !relief_()) throw;
      }
      floor_.store(floor, std::memory_order_relaxed);  // a refused request does not count
    }
  }
  /// Who is told of the block: null if nobody is.
  base::EventSink* sink_of(const Block& block) const { return block.is_from_replay ? nullptr : sink(); }
  Block& create_once(base::Bytes size);
  void run_replays_before_outside();
  class ReplayTime;
  /// See Rebuilder::replay.
  bool run_replay(const DueReplay& due);
  std::optional<DueReplay> due_replay(const base::OpSignature& next);
  void destroy_block(Block& block) noexcept;
  void end_record(Block& block) noexcept;
  void rebuild(std::span<const std::uint64_t> blocks);
  std::byte* acquire_slab_chunk_once(base::Bytes size);
  void admit_once(PinSet& pins);
  bool admit_at_begin(PinSet& pins);
  Block* pin_export_once(const void* address);
  void pin_export_once(Block& block);
  Block* locate(const void* address) const;
  void fit_into_budget();
  bool export_locked(Block& block);
  bool serve_fault_once(const void* address, FaultKind kind, std::optional<std::uint64_t>& unsettled) noexcept;
  bool may_be_exposed(Block& block) noexcept;
  void page_all_in();
  bool births_have_places();
  bool is_paging_timed() const { return sink() != nullptr || is_followed(); }
  double paging_seconds() const;
  void forget(Block& block) noexcept;
  void do_boundary_work(std::uint64_t now);
  void run_task(std::uint64_t now);
  void count_followed(Statistics& counts) const;
  void notify_of_end() noexcept {
    if (ended_.load(std::memory_order_relaxed) == nullptr) return;
    const ThreadState* const thread = ended_.exchange(nullptr, std::memory_order_acquire);
    if (executor_.source() != nullptr && (is_on_device() || thread == follower_)) executor_.end_op();
  }
  bool is_told_to_source() const {
    const bool is_of_program = is_on_device() || follower_ == &t_state;
    return executor_.source() != nullptr && is_of_program && !t_state.is_collectives &&
           t_state.replaying != Replaying::kOnDemand;
  }
  void note_unevictable();
  void note_curve();
  void order_uses_in(device::Queue queue, std::span<Block* const> blocks);
  bool order_uses_at_begin(std::span<Block* const> blocks);
  bool must_stop_raising() const;
  void stop_raising();

  bool (*relief_)() = nullptr;
  arena::AddressSpace& space_;
  Binding& binding_;
  PlacedBinding* const placed_;  // the same, if its blocks have places; else null
  BlockTable table_;
  const arena::Ledger& ledger_ = table_.ledger();
  std::mutex mutex_;
  std::atomic<std::uint64_t> locks_taken_{0};  // changed with the lock held
  std::atomic<std::uint64_t> clock_{0};        // op index; goes on from session to session, as last uses do
  Statistics counts_;
  Transfers transfers_{table_, binding_, counts_, clock_};
  Executor executor_{table_, transfers_, binding_, counts_, clock_};
  std::atomic<std::uint64_t> floor_{0};  // bytes
  Room room_{table_, binding_, transfers_, executor_, counts_, clock_, floor_};
  Admission admission_{*this, binding_, transfers_, room_};
  // The thread whose ops are reported to the action source. On a device those of all threads are: backward passes run
  // on a thread of their own, while the program's waits.
  const ThreadState* follower_ = nullptr;
  std::optional<Curve> curve_;
  BoundaryWork boundary_work_;
  std::optional<Fuzzer> fuzzer_;
  std::atomic<Rebuilder*> rebuilder_{nullptr};
  std::uint64_t witness_ops_ = 0;
  std::uint64_t export_bytes_ = 0;
  std::uint64_t births_ = 0;                   // blocks ever made
  std::uint64_t first_op_ = 0;                 // the clock at the start of this session
  std::atomic<std::uint64_t> unevictable_{0};  // bytes in slabs and exports
  std::atomic<std::uint64_t> for_good_{0};     // bytes of `acquire_for_good`
  std::atomic<std::uint64_t> records_{0};
  std::atomic<base::EventSink*> sink_{nullptr};
  std::atomic<bool> is_followed_{false};
  std::atomic<bool> raises_{true};                   // raw access to absent blocks of a device
  std::atomic<const ThreadState*> ended_{nullptr};   // the thread of an op of whose end no source was notified yet
  std::atomic<std::int64_t> paging_nanoseconds_{0};  // of the session
};

}  // namespace tensorpager::pager
