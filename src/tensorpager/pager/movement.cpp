// One block's way out and in. A page-out is given up first, which submits its copy, and finished later, which waits for
// it; a page-in begins and is finished likewise. All with the lock held.
#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

using base::Bytes;

/// From here on the block is read-only, and to leave. False where it cannot: pinned, absent, or nobody could be told.
/// Where the copy cannot be submitted all is as before.
bool Pager::give_up(Block& block) {
  if (block.leaving) return true;
  std::uint64_t word = block.state();
  if ((word & (kAbsent | kUnclaimed)) == 0 && !binding_.is_claimed(block)) {
    block.word.fetch_or(kUnclaimed);
    return false;
  }
  if ((word & ~kClean) != 0) return false;
  if ((word & kClean) == 0) {
    if (!block.word.compare_exchange_strong(word, kClean)) return false;
    const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
    bool reserved = false;
    try {
      block.slot = tier_->reserve(block.charged);
      reserved = true;
      binding_.begin_page_out(block);
      block.copy = tier_->submit_page_out({block.data, block.charged.count()}, block.slot, Bytes(0));
    } catch (...) {
      if (reserved) release_slot(block);
      make_dirty(block);
      throw;
    }
    block.copying = true;
  }
  block.leaving = true;
  block.is_awaited = false;
  leaving_.push_back(&block);
  leaving_bytes_ += block.charged;
  return true;
}

/// What was given up is absent. False where it was pinned meanwhile: then it is clean. Throws IoError where the copy
/// failed: then it is as before it was given up.
bool Pager::finish(Block& block) {
  if (block.departed) {
    depart(block);
    return true;
  }
  const bool was_clean = !block.copying;
  settle(block);
  std::uint64_t word = kClean;
  if (!block.word.compare_exchange_strong(word, kAbsent)) return false;
  if (was_clean) ++counts_.clean_drops;
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  policy_->remove(block);
  binding_.unbind(block);
  ledger_.page_out(block.charged);
  settle_pool();
  add_absent(block);
  return true;
}

/// The copy is done, and the block no longer leaves.
void Pager::settle(Block& block) {
  remove_leaving(block);
  if (!std::exchange(block.copying, false)) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  try {
    tier_->wait(std::exchange(block.copy, {}));
  } catch (...) {
    release_slot(block);
    make_dirty(block);
    throw;
  }
  ++counts_.page_outs;
  counts_.page_out_bytes += block.charged.count();
}

/// The block stays after all, and nobody waits for its copy.
void Pager::withdraw(Block& block) noexcept {
  if (!block.leaving) return;
  if (block.departed) return depart(block);
  remove_leaving(block);
  if (!std::exchange(block.copying, false)) return;
  if (!tier_->cancel(std::exchange(block.copy, {}))) {
    ++counts_.page_outs;
    counts_.page_out_bytes += block.charged.count();
  }
  release_slot(block);
  make_dirty(block);
}

void Pager::withdraw_all() noexcept {
  while (!leaving_.empty()) withdraw(*leaving_.back());
}

/// The last of a block whose storage died, or is elsewhere, while it was copied: once it is.
void Pager::depart(Block& block) noexcept {
  try {
    settle(block);
  } catch (const std::exception&) {
    ++counts_.failed_actions;  // nobody wants the bytes
  }
  if (block.is_clean()) release_slot(block);
  binding_.release(block);
  ledger_.page_out(block.charged);
  settle_pool();
  const std::uint64_t last = block.word.fetch_or(kDead, std::memory_order_acq_rel);
  if ((last & (kPinMask | kExportMask)) == 0) forget(block);
}

void Pager::make_dirty(Block& block) {
  binding_.cancel_page_out(block);
  ++block.mended;
  block.word.fetch_and(~kClean, std::memory_order_release);
}

void Pager::make_writable(Block& block) {
  withdraw(block);
  if (!block.is_clean()) return;
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  binding_.make_writable(block);
  ++block.mended;
  release_slot(block);
  block.word.fetch_and(~kClean, std::memory_order_release);
}

void Pager::release_slot(Block& block) {
  tier_->release(block.slot);
  block.slot = {};
}

void Pager::remove_leaving(Block& block) noexcept {
  if (!std::exchange(block.leaving, false)) return;
  leaving_.erase(std::find(leaving_.begin(), leaving_.end(), &block));
  leaving_bytes_ -= block.charged;
}

/// Room, or a place, was made. Where it fails all is as before.
void Pager::begin_page_in(Block& block, bool may_be_dirty) {
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  const transfer::Ticket after = std::max(handed_over_, block.copy);
  Arrival arrival{.block = &block,
                  .pieces = binding_.stage(block, ledger_.pool_allowance(block.charged)),
                  .tickets = {},
                  .may_be_dirty = may_be_dirty};
  try {
    Bytes at;
    for (const arena::Piece& piece : arrival.pieces) {
      const std::span<std::byte> to(piece.at, piece.bytes.count());
      arrival.tickets.push_back(after.is_finished() ? tier_->submit_page_in(block.slot, at, to)
                                                    : tier_->submit_page_in_after(after, block.slot, at, to));
      at += piece.bytes;
    }
  } catch (...) {
    let_go(arrival);
    throw;
  }
  handed_over_ = {};
  block.copying = false;
  block.copy = {};
  settle_pool();
  ledger_.page_in(block.charged);
  block.arriving = true;
  arriving_.push_back(std::move(arrival));
}

void Pager::finish_page_in(Block& block, Access access) {
  Arrival arrival = take_arrival(block);
  if (arrival.may_be_dirty) access = Access::kWrite;
  try {
    const base::Stopwatch watch(counts_.page_in_stall_seconds);
    for (transfer::Ticket& ticket : arrival.tickets) tier_->wait(std::exchange(ticket, {}));
  } catch (...) {
    ledger_.page_out(block.charged);
    let_go(arrival);
    throw;
  }
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  binding_.bind(block, arrival.pieces, access);
  settle_pool();
  remove_absent(block);
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  policy_->add(block);
  if (access == Access::kWrite) release_slot(block);
  ++block.mended;
  ++counts_.page_ins;
  counts_.page_in_bytes += block.charged.count();
  block.word.store(access == Access::kWrite ? 0 : kClean, std::memory_order_release);
}

Pager::Arrival Pager::take_arrival(Block& block) {
  const auto found =
      std::find_if(arriving_.begin(), arriving_.end(), [&](const Arrival& arrival) { return arrival.block == &block; });
  Arrival arrival = std::move(*found);
  arriving_.erase(found);
  block.arriving = false;
  return arrival;
}

/// A page-in that nobody waits for: the block stays absent.
void Pager::abandon(Block& block) noexcept {
  Arrival arrival = take_arrival(block);
  ledger_.page_out(block.charged);
  let_go(arrival);
}

void Pager::let_go(Arrival& arrival) noexcept {
  for (const transfer::Ticket ticket : arrival.tickets) tier_->cancel(ticket);
  binding_.discard(arrival.pieces);
  settle_pool();
}

}  // namespace tensorpager::pager
