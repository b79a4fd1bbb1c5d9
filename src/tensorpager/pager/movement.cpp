// Pages single blocks out and in. A page-out begins with `give_up`, which submits the copy, and ends with `finish`,
// which waits for it; a page-in has two halves likewise. For plans `take_away` replaces `give_up`, and page-ins are put
// in place off the op threads (relocating.cpp). All with the lock held.
#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

using base::Bytes;

/// Starts paging the block out: makes it read-only and submits the copy. Returns false if it is pinned, absent or
/// unclaimed. If the copy cannot be submitted all is as before.
bool Pager::give_up(Block& block) {
  if (block.leaving) return !block.taken;
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
  add_leaving(block);
  return true;
}

/// Finishes a page-out: the block is absent. Returns false if it was pinned meanwhile: then it is clean. Throws IoError
/// if the copy failed: then all is as before the page-out.
bool Pager::finish(Block& block) {
  if (block.departed) {
    depart(block);
    return true;
  }
  if (block.taken) {
    finish_taking(block);
    return true;
  }
  const bool was_clean = !block.copying;
  settle(block);
  std::uint64_t word = kClean;
  if (!block.word.compare_exchange_strong(word, kAbsent)) return false;
  if (was_clean) ++counts_.clean_drops;
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  unbind(block);
  return true;
}

/// Throws IoError if the machine refused: then the block is clean.
void Pager::unbind(Block& block) {
  const Relocation pages = binding_.begin_unbind(block);
  try {
    binding_.relocate(pages);
  } catch (...) {
    binding_.cancel_relocation(pages);
    block.word.store(kClean, std::memory_order_release);
    throw;
  }
  binding_.end_relocation(pages);
  policy_->remove(block);
  add_absent(block);
  ledger_.page_out(block.charged);
  settle_pool();
}

/// Waits for the copy; the block is no longer leaving.
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
  count_page_out(block);
}

/// Cancels a page-out: the block stays, and nobody waits for its copy.
void Pager::withdraw(Block& block) noexcept {
  if (!block.leaving) return;
  if (block.departed) return depart(block);
  if (block.copying && !tier_->cancel(std::exchange(block.copy, {}))) count_page_out(block);
  if (block.taken) return stay(block);
  remove_leaving(block);
  if (!std::exchange(block.copying, false)) return;
  release_slot(block);
  make_dirty(block);
}

void Pager::withdraw_all() noexcept {
  while (!leaving_.empty()) withdraw(*leaving_.back());
}

/// Frees the place of a block whose storage died, or is elsewhere, once its copy is done.
void Pager::depart(Block& block) noexcept {
  try {
    settle(block);
  } catch (const std::exception&) {
    ++counts_.failed_actions;  // nobody needs the bytes
  }
  release_departed(block);
}

void Pager::release_departed(Block& block) noexcept {
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

void Pager::count_page_out(const Block& block) {
  ++counts_.page_outs;
  counts_.page_out_bytes += block.charged.count();
}

void Pager::add_leaving(Block& block) {
  block.leaving = true;
  block.is_awaited = false;
  leaving_.push_back(&block);
  leaving_bytes_ += block.charged;
}

void Pager::remove_leaving(Block& block) noexcept {
  if (!std::exchange(block.leaving, false)) return;
  leaving_.erase(std::find(leaving_.begin(), leaving_.end(), &block));
  leaving_bytes_ -= block.charged;
}

/// The caller has made room, or a place. If it fails all is as before.
void Pager::begin_page_in(Block& block, const Place& place, bool may_be_dirty) {
  if (block.taken) finish(block);
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  Arrival arrival{.block = &block,
                  .pieces = binding_.stage(block, place, ledger_.pool_allowance(block.charged)),
                  .tickets = {},
                  .placing = {},
                  .may_be_dirty = may_be_dirty};
  const transfer::Ticket after = std::max(newest_copy_from(place), block.copy);
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
  block.copying = false;
  block.copy = {};
  settle_pool();
  ledger_.page_in(block.charged);
  block.arriving = true;
  arriving_.push_back(std::move(arrival));
}

/// Throws IoError if the block could not be read or put in place: then it is absent.
void Pager::finish_page_in(Block& block, Access access) {
  if (!find_arrival(block)->placing) {
    const auto placing = begin_placing(block, access);
    const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
    relocate(*placing);
  }
  finish_placing(block);
  if (access == Access::kWrite) make_writable(block);
}

/// The newest copy from these bytes, among those whose places were passed on.
transfer::Ticket Pager::newest_copy_from(const Place& place) const {
  return passes_places_on_ ? passed_on_.newest_copy_from(place) : transfer::Ticket();
}

std::vector<Pager::Arrival>::iterator Pager::find_arrival(const Block& block) {
  return std::ranges::find(arriving_, &block, &Arrival::block);
}

Pager::Arrival Pager::take_arrival(Block& block) {
  const auto found = find_arrival(block);
  Arrival arrival = std::move(*found);
  arriving_.erase(found);
  block.arriving = false;
  return arrival;
}

/// Cancels a page-in: the block stays absent, unless it is being put in place already.
void Pager::abandon(Block& block) noexcept {
  if (find_arrival(block)->placing) {
    try {
      finish_placing(block);
    } catch (const std::exception&) {
      ++counts_.failed_actions;
    }
    return;
  }
  Arrival arrival = take_arrival(block);
  ledger_.page_out(block.charged);
  let_go(arrival);
}

void Pager::let_go(Arrival& arrival) noexcept {
  for (const transfer::Ticket ticket : arrival.tickets) tier_->cancel(ticket);
  binding_.discard(*arrival.block, arrival.pieces);
  settle_pool();
}

}  // namespace tensorpager::pager
