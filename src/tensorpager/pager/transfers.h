// Page-outs and page-ins of single blocks, from their submission to their end. A block changes its state when a
// transfer is submitted; who needs its bytes or its place ends the transfer, one way or the other.
//
// Nothing here decides what moves, and nothing takes a lock: all calls are made with the pager's lock held. The system
// calls that move pages are part of the transfers, made on their threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/passed_on_pages.h"
#include "tensorpager/pager/place_order.h"
#include "tensorpager/pager/placed_binding.h"
#include "tensorpager/pager/rebuilder.h"
#include "tensorpager/pager/relocation.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/thread_state.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

/// A page-in in flight, and the pages it reads into.
struct Arrival {
  Block* block = nullptr;
  std::vector<arena::Piece> pieces;
  Access access = Access::kRead;             // with which it is put in place; kWrite: writes are not detected
  transfer::Fence after = {};                // the copies that it is queued behind
  transfer::Ticket ticket = {};              // of the read, and of the placing if that is a job too
  std::shared_ptr<Relocating> placing = {};  // of the pages under the block
  bool is_needed = false;                    // by the op that is being admitted
};

/// The pages of a page-in, if the binding moves pages.
enum class PagesFrom : std::uint8_t {
  kPool,      // they are there; for who needs the block now
  kPassedOn,  // as far as there are some, those that were passed on, behind whose copies it is queued
};

class Transfers {
 public:
  /// All must outlive this. `clock`: the op index.
  Transfers(BlockTable& table, Binding& binding, PlaceOrder& places, Statistics& counts,
            const std::atomic<std::uint64_t>& clock)
      : table_(table),
        binding_(binding),
        placed_(binding.placed()),
        mover_(binding.page_mover()),
        holders_(placed_ != nullptr ? placed_->holders() : nullptr),
        places_(places),
        counts_(counts),
        clock_(clock) {}

  /// Null: none, at the end. Nothing is in flight or below else.
  void use(std::unique_ptr<transfer::Queues> queues);
  transfer::Queues* queues() const { return queues_.get(); }  // null before the first session
  /// Those in flight may have failed long ago, which says nothing about the tier now: tries once more after an IoError,
  /// when no page-out is in flight.
  template <typename Attempt>
  void with_fresh(Attempt&& attempt) {
    if (leaving_.empty() && arriving_.empty()) return attempt();
    try {
      return attempt();
    } catch (const base::IoError&) {
      ++counts_.failed_actions;
    }
    cancel_page_outs();
    attempt();
  }

  // --- out
  /// Submits the copy of a dirty block; no op can pin the block from here on. Returns false if it is pinned, unclaimed,
  /// or out of memory already; true, doing nothing, if it is leaving. If it throws all is as before.
  bool begin_page_out(Block& block);
  /// Waits for the copy. Afterwards the block is below. Throws IoError if it could not be copied or unbound: then it is
  /// resident, and the page-ins behind it are cancelled.
  void finish_page_out(Block& block);
  /// Both. Returns false if the block cannot leave.
  bool page_out(Block& block) {
    if (!begin_page_out(block)) return false;
    finish_page_out(block);
    return true;
  }
  /// Ends the page-out of a block that is needed: it is resident again, clean if it was copied already and is still in
  /// its place; or below, if its pages were passed on.
  void take_back(Block& block) noexcept;
  /// The same, but that it is dirty if it has any bytes of its own. One whose pages were passed on is finished instead.
  void cancel_page_out(Block& block) noexcept;
  void cancel_page_outs() noexcept;
  /// Page-outs in flight, orphans too, oldest first.
  const std::deque<Block*>& leaving() const { return leaving_; }
  /// Of those that are charged.
  base::Bytes leaving_bytes() const { return leaving_bytes_; }
  /// The oldest of the block with this number; null if there is none.
  Block* find_leaving(std::uint64_t number) const;
  bool is_copied(const Block& leaving) const { return queues_->is_done(leaving.copy); }

  // --- dropped
  /// Takes the memory of a block away, bytes and all. Returns false if it is pinned, unclaimed or absent, or cannot be
  /// rebuilt. Throws IoError if the machine refused; then nothing has changed.
  bool drop(Block& block, Rebuilder& rebuilder);
  /// Gives a dropped block the memory of `fresh`, which is resident and as large, with its bytes; `fresh` is dead
  /// afterwards. Throws IoError if the machine refused; then its bytes are lost.
  void take_over(Block& block, Block& fresh);

  // --- pages that are passed on before they are copied
  /// Whether page-ins can have the block's pages before they are copied.
  bool can_pass_pages_on(const Block& leaving) const { return leaving.copying && leaving.relocated != nullptr; }
  /// Passes a leaving block's pages on to the page-ins that begin from now on; they are queued behind its copy.
  void pass_pages_on(Block& block);
  /// Whether a page-in that takes what was passed on fits into the budget.
  bool has_room_for_page_in(base::Bytes bytes) const {
    return table_.ledger().fits(bytes, passed_on_pages_.takeable(bytes));
  }
  const PassedOnPages& passed_on_pages() const { return passed_on_pages_; }
  /// Finishes the page-outs of passed on blocks that are copied: what nobody has taken goes to the pool. If one failed
  /// its block is resident again, and the page-ins behind it are cancelled.
  void finish_passed_on() noexcept;

  // --- places that are passed on before their bytes are copied
  /// Passes a leaving block's place on to the next user, which is ordered behind the copy.
  void pass_place_on(Block& block);
  /// Makes a leaving block below that is still copied from its place: the record that is returned keeps that in use
  /// until it is copied.
  Block& orphan_place(Block& block);
  /// Frees the memory of a block that died, resident or absent.
  void release_memory(Block& block) noexcept;

  // --- in
  /// To a place that is free, if blocks have places; else the caller has made room. If it throws all is as before, but
  /// that a block that was leaving is below.
  void begin_page_in(Block& block, const Place& place, Access access, PagesFrom pages = PagesFrom::kPool);
  /// Throws IoError if the block could not be read or put in place: then it is below.
  void finish_page_in(Block& block, Access access);
  /// The block is below, or resident if it is being put in place already.
  void cancel_page_in(Block& block) noexcept;
  /// Page-ins in flight, oldest first.
  std::vector<Arrival>& arriving() { return arriving_; }
  const std::vector<Arrival>& arriving() const { return arriving_; }
  /// A clean block becomes dirty.
  void make_writable(Block& block);

  /// After it no thread relocates anything before the lock is released.
  void await_relocations();
  void release_slot(Block& block);
  void settle_pool() {
    if (mover_ != nullptr) table_.set_pooled(mover_->pooled());
  }
  Holders* holders() const { return holders_; }
  /// Whether the block's holder still has it, so that it may be evicted.
  bool is_claimed(const Block& block) const { return holders_ == nullptr || holders_->has(block); }

 private:
  bool may_leave(Block& block);
  bool take_away(Block& block);
  void submit_copy(Block& block);
  std::shared_ptr<Relocating> begin_relocation(Block& block);
  void make_accessible(Block& block, const Relocating* pages) noexcept;
  void reclaim_pages(Block& block) noexcept;
  void end_unbind(Block& block, const Relocation& pages) noexcept;
  void await_copy_of(Block& block);
  void finish_anyway(Block& block) noexcept;
  void put_below(Block& block);
  void unbind(Block& block);
  void restore(Block& block) noexcept;
  void finish_orphan(Block& orphan) noexcept;
  void release_orphan(Block& orphan) noexcept;
  void count_page_out(const Block& block);
  void remove_leaving(Block& block) noexcept;
  /// Makes the system calls of a relocation. Takes no lock.
  void relocate(Relocating& pages) noexcept;
  /// The same as part of a transfer.
  std::function<void()> job_of(const std::shared_ptr<Relocating>& pages);
  Arrival stage(Block& block, const Place& place, PagesFrom pages);
  void forget_copied(const transfer::Fence& copies);
  void place(Arrival& arrival);
  void complete(const Arrival& arrival) noexcept;
  void release_staging(const Arrival& arrival) noexcept;
  Arrival take_arrival(Block& block);
  void settle_passed_on() { table_.set_passed_on(passed_on_pages_.bytes()); }

  BlockTable& table_;
  Binding& binding_;
  PlacedBinding* const placed_;  // the same, if its blocks have places; else null
  PageMover* const mover_;       // the same, if it moves pages; else null
  Holders* const holders_;       // null: nobody is notified where blocks are
  PlaceOrder& places_;
  Statistics& counts_;
  const std::atomic<std::uint64_t>& clock_;
  std::unique_ptr<transfer::Queues> queues_;
  std::deque<Block*> leaving_;
  base::Bytes leaving_bytes_;
  std::vector<Arrival> arriving_;
  PassedOnPages passed_on_pages_;
};

}  // namespace tensorpager::pager
