// Relocates pages off the op threads: transfer threads make the system calls, without the pager's lock. All else with
// the lock held.
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

/// Begins a page-out for a plan, which does not use the block before it comes back: the block is absent at once, and
/// its pages are copied from where the transfer thread moves them first, so that no op makes system calls. Returns
/// false if it cannot leave. If the copy cannot be submitted all is as before.
bool Pager::take_away(Block& block) {
  if (block.leaving || !binding_.relocates_beside()) return give_up(block);
  std::uint64_t word = 0;
  if (!block.word.compare_exchange_strong(word, kAbsent)) return give_up(block);
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  const auto taken = std::make_shared<Relocating>(binding_.begin_unbind(block));
  if (taken->pages.to == nullptr) {  // the pages would be gone before they are copied
    put_back(block, *taken);
    return give_up(block);
  }
  bool is_reserved = false;
  try {
    block.slot = tier_->reserve(block.charged);
    is_reserved = true;
    const auto move = [this, taken] {
      relocate(*taken);
      if (taken->error) std::rethrow_exception(taken->error);
    };
    const std::span<const std::byte> from(taken->pages.to, block.charged.count());
    block.copy = tier_->submit_page_out_after(move, from, block.slot, base::Bytes(0));
  } catch (...) {
    if (is_reserved) release_slot(block);
    put_back(block, *taken);
    throw;
  }
  policy_->remove(block);
  add_absent(block);
  block.taken = taken;
  block.copying = true;
  add_leaving(block);
  return true;
}

/// Finishes what `take_away` began. Throws IoError if the pages could not be moved or copied: then all is as before.
void Pager::finish_taking(Block& block) {
  try {
    const base::Stopwatch watch(counts_.page_out_stall_seconds);
    tier_->wait(std::exchange(block.copy, {}));
  } catch (...) {
    stay(block);
    throw;
  }
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  const std::shared_ptr<Relocating> taken = std::exchange(block.taken, nullptr);
  counts_.handling_beside_seconds += taken->seconds;
  remove_leaving(block);
  block.copying = false;
  count_page_out(block);
  binding_.end_relocation(taken->pages);
  ledger_.page_out(block.charged);
  settle_pool();
}

/// Undoes `take_away`, wherever the pages are by now. Nobody copies them any more.
void Pager::stay(Block& block) noexcept {
  remove_leaving(block);
  remove_absent(block);
  policy_->add(block);
  block.copying = false;
  release_slot(block);
  ++block.mended;
  put_back(block, *std::exchange(block.taken, nullptr));
}

void Pager::put_back(Block& block, const Relocating& taken) noexcept {
  if (taken.is_moved()) binding_.relocate(binding_.begin_bind(block, taken.pages.there(), Access::kWrite));
  binding_.cancel_relocation(taken.pages);
  block.word.store(0, std::memory_order_release);
}

/// Makes the system calls.
void Pager::relocate(Relocating& pages) noexcept {
  const double begin = base::seconds_now();
  try {
    binding_.relocate(pages.pages);
  } catch (...) {
    pages.error = std::current_exception();
  }
  pages.seconds = base::seconds_now() - begin;
  pages.is_over.store(true, std::memory_order_release);
}

/// Waits for the reads and begins to put the pages in place. Throws IoError if they could not be read: then it is
/// absent.
std::shared_ptr<Relocating> Pager::begin_placing(Block& block, Access access) {
  Arrival& arrival = *find_arrival(block);
  try {
    const base::Stopwatch watch(counts_.page_in_stall_seconds);
    for (transfer::Ticket& ticket : arrival.tickets) tier_->wait(std::exchange(ticket, {}));
  } catch (...) {
    abandon(block);
    throw;
  }
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  arrival.access = arrival.may_be_dirty ? Access::kWrite : access;
  arrival.placing = std::make_shared<Relocating>(binding_.begin_bind(block, std::move(arrival.pieces), arrival.access));
  return arrival.placing;  // the block may be gone when it is over
}

/// Throws IoError if the machine refused: then the block is absent.
void Pager::finish_placing(Block& block) {
  const Arrival arrival = take_arrival(block);
  const Relocating& placing = *arrival.placing;
  await(placing);
  if (placing.is_beside) counts_.handling_beside_seconds += placing.seconds;
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  if (placing.error) {
    binding_.cancel_relocation(placing.pages);
    ledger_.page_out(block.charged);
    std::rethrow_exception(placing.error);
  }
  binding_.end_relocation(placing.pages);
  settle_pool();
  remove_absent(block);
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  policy_->add(block);
  if (arrival.access == Access::kWrite) release_slot(block);
  ++block.mended;
  ++counts_.page_ins;
  counts_.page_in_bytes += block.charged.count();
  block.word.store(arrival.access == Access::kWrite ? 0 : kClean, std::memory_order_release);
}

/// On a transfer thread, without the lock. Returns false if another thread has the lock afterwards, which does what is
/// due.
bool Pager::place_beside(Relocating& placing, Lock& lock) {
  placing.is_beside = true;
  lock.unlock();
  relocate(placing);
  if (lock.try_again()) return true;
  is_advance_due_.store(true);
  return lock.try_again();
}

/// Waits for some system calls that another thread makes without the lock.
void Pager::await(const Relocating& placing) {
  if (placing.is_over.load(std::memory_order_acquire)) return;
  const base::Stopwatch watch(counts_.page_in_stall_seconds);
  while (!placing.is_over.load(std::memory_order_acquire)) std::this_thread::yield();
}

/// After it no thread relocates anything before the lock is released.
void Pager::await_relocations() {
  for (const Block* block : leaving_)
    while (block->taken && !tier_->is_done(block->copy)) std::this_thread::yield();
  for (const Arrival& arrival : arriving_)
    if (arrival.placing) await(*arrival.placing);
}

}  // namespace tensorpager::pager
