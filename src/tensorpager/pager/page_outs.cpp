// Pages single blocks out. A page-out begins with its submission, from which on no op can pin the block, and ends when
// its copy is done, or when somebody needs the block after all. All with the lock held.
//
// A binding that can move pages beside ops has a transfer thread move them out of the block's address first and copy
// them from there, so that no op makes system calls; else they are read-only where they are until they are copied.
#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

using base::Bytes;

/// Returns false if the block is pinned, unclaimed, or out of memory already; true, doing nothing, if it is leaving. If
/// the copy cannot be submitted all is as before.
bool Pager::begin_page_out(Block& block) {
  if (block.is_leaving()) return true;
  std::uint64_t word = block.state();
  if ((word & (kAbsent | kUnclaimed)) == 0 && !binding_.is_claimed(block)) {
    block.word.fetch_or(kUnclaimed);
    return false;
  }
  if ((word & ~kClean) != 0 || !block.word.compare_exchange_strong(word, kAbsent)) return false;
  if ((word & kClean) == 0) {
    try {
      submit_copy(block);
    } catch (...) {
      ++block.mended;
      block.word.store(word, std::memory_order_release);
      throw;
    }
  }
  table_.change(block, Residence::kLeaving);
  block.is_awaited = false;
  leaving_.push_back(&block);
  leaving_bytes_ += block.charged;
  return true;
}

void Pager::submit_copy(Block& block) {
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  const std::shared_ptr<Relocating> pages = begin_relocation(block);
  try {
    block.slot = tier_->reserve(block.charged);
    if (pages) {
      const auto move = [this, pages, op = &t_state] {
        pages->is_beside = &t_state != op;
        relocate(*pages);
        if (pages->error) std::rethrow_exception(pages->error);
      };
      const std::span<const std::byte> from(pages->pages.to, block.charged.count());
      block.copy = tier_->submit_page_out_after(move, from, block.slot, Bytes(0));
    } else {
      binding_.begin_page_out(block);
      block.copy = tier_->submit_page_out({block.data, block.charged.count()}, block.slot, Bytes(0));
    }
  } catch (...) {
    release_slot(block);
    make_accessible(block, pages.get());
    throw;
  }
  block.relocated = pages;
  block.copying = true;
}

/// Returns null if the block's pages are copied where they are.
std::shared_ptr<Relocating> Pager::begin_relocation(Block& block) {
  if (!binding_.relocates_beside()) return nullptr;
  auto pages = std::make_shared<Relocating>(binding_.begin_unbind(block));
  if (pages->pages.to != nullptr) return pages;
  binding_.cancel_relocation(pages->pages);  // they would be gone before they are copied
  return nullptr;
}

/// Undoes what the submission of a copy did to the block's pages, wherever they are by now. Nobody copies them.
void Pager::make_accessible(Block& block, const Relocating* pages) noexcept {
  if (pages == nullptr) return binding_.cancel_page_out(block);
  if (pages->is_moved()) binding_.relocate(binding_.begin_bind(block, pages->pages.there(), Access::kWrite));
  binding_.cancel_relocation(pages->pages);
}

/// Makes the system calls of a relocation.
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

/// Waits for the copy. Afterwards the block is below. Throws IoError if it could not be copied or unbound: then it is
/// resident.
void Pager::finish_page_out(Block& block) {
  if (block.residence == Residence::kOrphaned) return finish_orphan(block);
  const bool is_copied = block.copying;
  await_copy_of(block);
  const base::Stopwatch watch(handling_of(counts_.page_out_handling_seconds));
  if (!is_copied) ++counts_.clean_drops;
  if (const std::shared_ptr<Relocating> pages = std::exchange(block.relocated, nullptr)) {
    if (pages->is_beside) counts_.handling_beside_seconds += pages->seconds;
    binding_.end_relocation(pages->pages);
  } else {
    unbind(block);
  }
  remove_leaving(block);
  table_.change(block, Residence::kBelow);
  settle_pool();
}

/// Throws IoError if the copy failed: then the block is resident.
void Pager::await_copy_of(Block& block) {
  if (!block.copying) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  try {
    tier_->wait(std::exchange(block.copy, {}));
  } catch (...) {
    restore(block);
    throw;
  }
  block.copying = false;
  count_page_out(block);
}

/// For a block that is still in its place. Throws IoError if the machine refused: then it is resident and clean.
void Pager::unbind(Block& block) {
  const Relocation pages = binding_.begin_unbind(block);
  try {
    binding_.relocate(pages);
  } catch (...) {
    binding_.cancel_relocation(pages);
    restore(block);
    throw;
  }
  binding_.end_relocation(pages);
}

/// Ends the page-out of a block that is needed: it is resident again, clean if it was copied already and is still in
/// its place.
void Pager::take_back(Block& block) noexcept {
  if (block.relocated || !block.copying || !tier_->is_done(block.copy)) return cancel_page_out(block);
  try {
    await_copy_of(block);
    restore(block);
  } catch (const std::exception&) {
    ++counts_.failed_actions;
  }
}

void Pager::cancel_page_out(Block& block) noexcept {
  if (block.residence == Residence::kOrphaned) return finish_orphan(block);
  if (block.copying && !tier_->cancel(std::exchange(block.copy, {}))) count_page_out(block);
  restore(block);
}

void Pager::cancel_page_outs() noexcept {
  while (!leaving_.empty()) cancel_page_out(*leaving_.back());
}

/// Makes a leaving block resident again: dirty if it was being copied, else clean. Nobody copies from it.
void Pager::restore(Block& block) noexcept {
  remove_leaving(block);
  const bool is_dirty = std::exchange(block.copying, false);
  if (is_dirty) {
    release_slot(block);
    make_accessible(block, std::exchange(block.relocated, nullptr).get());
  }
  ++block.mended;
  table_.change(block, Residence::kResident, is_dirty ? 0 : kClean);
}

void Pager::make_writable(Block& block) {
  if (!block.is_clean()) return;
  const base::Stopwatch watch(handling_of(counts_.page_in_handling_seconds));
  binding_.make_writable(block);
  ++block.mended;
  release_slot(block);
  block.word.fetch_and(~kClean, std::memory_order_release);
}

void Pager::release_slot(Block& block) {
  if (block.slot.bytes > Bytes(0)) tier_->release(std::exchange(block.slot, {}));
}

void Pager::count_page_out(const Block& block) {
  ++counts_.page_outs;
  counts_.page_out_bytes += block.charged.count();
}

void Pager::remove_leaving(Block& block) noexcept {
  leaving_.erase(std::find(leaving_.begin(), leaving_.end(), &block));
  leaving_bytes_ -= block.charged;
}

/// The oldest page-out in flight of the block with this number; null if there is none.
Block* Pager::find_leaving(std::uint64_t number) const {
  const auto found = std::ranges::find(leaving_, number, &Block::number);
  return found == leaving_.end() ? nullptr : *found;
}

/// Passes the block's place on to the next user, which is ordered behind the copy.
void Pager::pass_place_on(Block& block) {
  if (!block.copying) return finish_page_out(block);
  passed_on_.remove_copied(*tier_);
  passed_on_.add(block.number, {binding_.offset_of(block.data), block.charged}, block.copy);
  count_page_out(block);
  if (block.residence == Residence::kOrphaned) return release_orphan(block);
  unbind(block);
  remove_leaving(block);
  table_.change(block, Residence::kBelow);
  settle_pool();
}

/// Makes a block absent that is still copied from its place: a record of its own keeps that in use until it is copied.
Block& Pager::orphan_place(Block& block) {
  auto orphan = std::make_unique<Block>();
  orphan->size = block.size;
  orphan->charged = block.charged;
  orphan->number = block.number;
  orphan->copy = block.copy;
  orphan->copying = true;
  binding_.leave_place_to(*orphan, block);
  *std::find(leaving_.begin(), leaving_.end(), &block) = orphan.get();
  table_.change(block, Residence::kBelow);
  table_.add_orphan(*orphan);
  records_.fetch_add(1, std::memory_order_relaxed);
  return *orphan.release();
}

/// Frees the place once its copy is done.
void Pager::finish_orphan(Block& orphan) noexcept {
  try {
    const base::Stopwatch watch(counts_.page_out_stall_seconds);
    tier_->wait(orphan.copy);
    count_page_out(orphan);
  } catch (const std::exception&) {
    ++counts_.failed_actions;  // nobody needs the bytes
  }
  release_orphan(orphan);
}

void Pager::release_orphan(Block& orphan) noexcept {
  remove_leaving(orphan);
  release_slot(orphan);
  binding_.release(orphan);
  table_.change(orphan, Residence::kDead);
  settle_pool();
  forget(orphan);
}

}  // namespace tensorpager::pager
