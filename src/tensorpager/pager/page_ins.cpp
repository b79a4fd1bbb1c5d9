// Pages single blocks in. A page-in reads into staged pages, or into a place, and puts these under the block once all
// is read: on a transfer thread without the lock if the binding can, else when an op needs the block. All with the lock
// held.
#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

using base::Bytes;

void Transfers::begin_page_in(Block& block, bool may_be_dirty) {
  if (block.is_leaving()) finish_page_out(block);
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  Arrival arrival{.block = &block,
                  .pieces = binding_.stage(block, table_.ledger().pool_allowance(block.charged)),
                  .tickets = {},
                  .placing = {},
                  .may_be_dirty = may_be_dirty};
  const transfer::Ticket after = std::max(newest_copy_from(arrival.pieces.front().at, block.charged), block.copy);
  try {
    Bytes at;
    for (const arena::Piece& piece : arrival.pieces) {
      const std::span<std::byte> to(piece.at, piece.bytes.count());
      arrival.tickets.push_back(after.is_finished() ? queues_->submit_page_in(block.slot, at, to)
                                                    : queues_->submit_page_in_after(after, block.slot, at, to));
      at += piece.bytes;
    }
  } catch (...) {
    release_staging(arrival);
    throw;
  }
  block.copying = false;
  block.copy = {};
  settle_pool();
  table_.change(block, Residence::kArriving);
  arriving_.push_back(std::move(arrival));
}

void Transfers::finish_page_in(Block& block, Access access) {
  if (!find_arrival(block)->placing) {
    const auto placing = begin_placing(block, access);
    const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
    relocate(*placing);
  }
  finish_placing(block);
  if (access == Access::kWrite) make_writable(block);
}

void Transfers::cancel_page_in(Block& block) noexcept {
  if (find_arrival(block)->placing) {
    try {
      finish_placing(block);
    } catch (const std::exception&) {
      ++counts_.failed_actions;
    }
    return;
  }
  Arrival arrival = take_arrival(block);
  table_.change(block, Residence::kBelow);
  release_staging(arrival);
}

void Transfers::release_staging(Arrival& arrival) noexcept {
  for (const transfer::Ticket ticket : arrival.tickets) queues_->cancel(ticket);
  binding_.discard(arrival.pieces);
  settle_pool();
}

std::shared_ptr<Relocating> Transfers::begin_placing(Block& block, Access access) {
  Arrival& arrival = *find_arrival(block);
  try {
    const base::Stopwatch watch(counts_.page_in_stall_seconds);
    for (transfer::Ticket& ticket : arrival.tickets) queues_->wait(std::exchange(ticket, {}));
  } catch (...) {
    cancel_page_in(block);
    throw;
  }
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  arrival.access = arrival.may_be_dirty ? Access::kWrite : access;
  arrival.placing = std::make_shared<Relocating>(binding_.begin_bind(block, std::move(arrival.pieces), arrival.access));
  return arrival.placing;  // the block may be gone when it is over
}

/// Throws IoError if the machine refused: then the block is below.
void Transfers::finish_placing(Block& block) {
  const Arrival arrival = take_arrival(block);
  const Relocating& placing = *arrival.placing;
  await(placing);
  if (placing.is_beside) counts_.handling_beside_seconds += placing.seconds;
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  if (placing.error) {
    binding_.cancel_relocation(placing.pages);
    table_.change(block, Residence::kBelow);
    std::rethrow_exception(placing.error);
  }
  binding_.end_relocation(placing.pages);
  settle_pool();
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const bool is_clean = arrival.access == Access::kRead;
  if (!is_clean) release_slot(block);
  ++block.mended;
  ++counts_.page_ins;
  counts_.page_in_bytes += block.charged.count();
  table_.change(block, Residence::kResident, is_clean ? kClean : 0);
}

/// Waits for some system calls that another thread makes without the lock.
void Transfers::await(const Relocating& placing) {
  if (placing.is_over.load(std::memory_order_acquire)) return;
  const base::Stopwatch watch(counts_.page_in_stall_seconds);
  while (!placing.is_over.load(std::memory_order_acquire)) std::this_thread::yield();
}

void Transfers::await_relocations() {
  for (const Block* block : leaving_)
    while (block->relocated && !queues_->is_done(block->copy)) std::this_thread::yield();
  for (const Arrival& arrival : arriving_)
    if (arrival.placing) await(*arrival.placing);
}

void Transfers::await_copy(transfer::Ticket copy) {
  if (copy.is_finished()) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  queues_->wait(copy);
}

transfer::Ticket Transfers::newest_copy_from(const std::byte* data, Bytes bytes) const {
  if (!passes_places_on_) return {};
  return passed_on_.newest_copy_from({binding_.offset_of(data), bytes});
}

bool Transfers::is_here(const Arrival& arrival) const {
  if (arrival.placing) return arrival.placing->is_over.load(std::memory_order_acquire);
  return std::ranges::all_of(arrival.tickets, [&](transfer::Ticket ticket) { return queues_->is_done(ticket); });
}

std::vector<Arrival>::iterator Transfers::find_arrival(const Block& block) {
  return std::ranges::find(arriving_, &block, &Arrival::block);
}

Arrival Transfers::take_arrival(Block& block) {
  const auto found = find_arrival(block);
  Arrival arrival = std::move(*found);
  arriving_.erase(found);
  return arrival;
}

}  // namespace tensorpager::pager
