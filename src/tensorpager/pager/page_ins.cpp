// Pages single blocks in. A page-in reads into staged pages, or into a place. The transfer thread puts staged pages
// under the block once all is read. All with the lock held.
#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

void Transfers::begin_page_in(Block& block, const Place& place, Access access, PagesFrom pages) {
  if (block.is_leaving()) finish_page_out(block);
  const base::Stopwatch watch(counts_.page_in_handling_seconds);
  Arrival arrival = stage(block, place, pages);
  arrival.access = access;
  arrival.after |= places_.uses_of(place) | block.copy;
  transfer::PageIn in{.after = arrival.after, .slot = block.slot, .to = {}};
  for (const arena::Piece& piece : arrival.pieces) in.to.emplace_back(piece.at, piece.bytes.count());
  if (mover_ != nullptr) {
    arrival.placing = std::make_shared<Relocating>(binding_.begin_bind(block, arrival.pieces, access));
    in.then = job_of(arrival.placing);
  }
  try {
    arrival.ticket = queues_->submit(std::move(in));
  } catch (...) {
    // Who takes the place next comes behind all that used it, and behind a part of the copy that was submitted.
    if (places_.device().is_on_device()) block.use().come_behind(arrival.after | queues_->submitted());
    release_staging(arrival);
    throw;
  }
  block.copying = false;
  block.copy = {};
  if (placed_ != nullptr) block.use().begin_behind(arrival.ticket);
  settle_pool();
  table_.change(block, Residence::kArriving);
  arriving_.push_back(std::move(arrival));
}

Arrival Transfers::stage(Block& block, const Place& place, PagesFrom pages) {
  PassedOnPages::Taken taken = passed_on_pages_.take(pages == PagesFrom::kPassedOn ? block.charged : base::Bytes(0));
  settle_passed_on();
  Arrival arrival{.block = &block, .pieces = std::move(taken.pieces), .after = taken.after};
  if (taken.bytes == block.charged) return arrival;
  Place rest = place;
  rest.bytes -= taken.bytes;
  try {
    std::ranges::copy(binding_.stage(block, rest, table_.ledger().pool_allowance(block.charged)),
                      std::back_inserter(arrival.pieces));
  } catch (...) {
    // The block has no place and no pages but those that were passed on.
    for (const arena::Piece& piece : arrival.pieces) passed_on_pages_.give_back(piece);
    settle_passed_on();
    settle_pool();
    throw;
  }
  return arrival;
}

void Transfers::finish_page_in(Block& block, Access access) {
  Arrival arrival = take_arrival(block);
  try {
    const base::Stopwatch watch(counts_.page_in_stall_seconds);
    queues_->wait(arrival.ticket);
    if (!arrival.placing) place(arrival);
  } catch (...) {
    table_.change(block, Residence::kBelow);
    release_staging(arrival);
    throw;
  }
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  complete(arrival);
  if (access == Access::kWrite) make_writable(block);
}

void Transfers::cancel_page_in(Block& block) noexcept {
  Arrival arrival = take_arrival(block);
  queues_->cancel(arrival.ticket);
  if (arrival.placing && arrival.placing->is_moved()) return complete(arrival);
  table_.change(block, Residence::kBelow);
  release_staging(arrival);
}

/// Throws IoError if the machine refused.
void Transfers::place(Arrival& arrival) {
  const base::Stopwatch watch(counts_.page_in_handling_seconds);
  arrival.placing = std::make_shared<Relocating>(binding_.begin_bind(*arrival.block, arrival.pieces, arrival.access));
  relocate(*arrival.placing);
  if (arrival.placing->error) std::rethrow_exception(arrival.placing->error);
}

/// The pages are in place: the block is resident.
void Transfers::complete(const Arrival& arrival) noexcept {
  Block& block = *arrival.block;
  if (arrival.placing->is_beside) counts_.handling_beside_seconds += arrival.placing->seconds;
  forget_copied(arrival.after);
  const base::Stopwatch watch(counts_.page_in_handling_seconds);
  arrival.placing->pages.end();
  settle_pool();
  const bool is_clean = arrival.access == Access::kRead;
  if (!is_clean) release_slot(block);
  ++block.mended;
  ++counts_.page_ins;
  counts_.page_in_bytes += block.charged.count();
  table_.change(block, Residence::kResident, is_clean ? kClean : 0);
}

/// Nobody reads into the pages, and they are not under the block.
void Transfers::release_staging(const Arrival& arrival) noexcept {
  if (arrival.placing && arrival.placing->error) {
    arrival.placing->pages.cancel();
  } else {
    std::vector<arena::Piece> pieces = arrival.pieces;
    std::erase_if(pieces, [&](const arena::Piece& piece) { return passed_on_pages_.give_back(piece); });
    if (placed_ != nullptr) places_.leave(*arrival.block);
    binding_.discard(*arrival.block, pieces);
    settle_passed_on();
  }
  settle_pool();
}

void Transfers::await_relocations() {
  transfer::Fence moves;
  for (const Block* block : leaving_)
    if (block->relocated) moves |= block->copy;
  for (const Arrival& arrival : arriving_)
    if (arrival.placing) moves |= arrival.ticket;
  if (queues_ != nullptr) queues_->host_wait(moves);
}

Arrival Transfers::take_arrival(Block& block) {
  const auto found = std::ranges::find(arriving_, &block, &Arrival::block);
  Arrival arrival = std::move(*found);
  arriving_.erase(found);
  return arrival;
}

}  // namespace tensorpager::pager
