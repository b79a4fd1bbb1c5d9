// Pages single blocks out. A page-out begins with its submission, from which on no op can pin the block, and ends when
// its copy is done, or when somebody needs the block after all. All with the lock held.
//
// If the binding moves pages, a transfer thread moves them out of the block's address first and copies them from there,
// so that no op makes system calls; else they are read-only where they are until they are copied. Pages that are out of
// the block's address can be passed on to page-ins at once.
#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

using base::Bytes;

void Transfers::use(std::unique_ptr<transfer::Queues> queues) {
  queues_ = std::move(queues);
  places_.use(queues_.get());
}

/// Returns false if the block is resident, but no storage has it as its own any more.
bool Transfers::may_leave(Block& block) {
  if ((block.state() & (kAbsent | kUnclaimed)) != 0 || is_claimed(block)) return true;
  block.word.fetch_or(kUnclaimed);
  return false;
}

bool Transfers::begin_page_out(Block& block) {
  if (block.is_leaving()) return true;
  if (!may_leave(block)) return false;
  std::uint64_t word = block.state();
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

void Transfers::submit_copy(Block& block) {
  const base::Stopwatch watch(counts_.page_out_handling_seconds);
  const std::shared_ptr<Relocating> pages = begin_relocation(block);
  try {
    block.slot = queues_->reserve(block.charged);
    if (pages) {
      transfer::PageOut out{.from = {pages->pages.to, block.charged.count()}, .slot = block.slot};
      out.first = job_of(pages);
      block.copy = queues_->submit(std::move(out));
    } else {
      binding_.begin_page_out(block);
      block.copy = queues_->submit(
          {.after = places_.uses_of(block), .from = {block.data, block.charged.count()}, .slot = block.slot});
      if (placed_ != nullptr) block.use().come_behind(block.copy);
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
std::shared_ptr<Relocating> Transfers::begin_relocation(Block& block) {
  if (mover_ == nullptr) return nullptr;
  auto pages = std::make_shared<Relocating>(binding_.begin_unbind(block));
  if (pages->pages.to != nullptr) return pages;
  pages->pages.cancel();  // they would be gone before they are copied
  return nullptr;
}

/// Undoes what the submission of a copy did to the block's pages, wherever they are by now. Nobody copies them.
void Transfers::make_accessible(Block& block, const Relocating* pages) noexcept {
  if (pages == nullptr) return binding_.make_writable(block);
  if (!pages->is_moved()) return pages->pages.cancel();
  pages->pages.end();
  const Relocation back = binding_.begin_bind(block, pages->pages.there(), Access::kWrite);
  back.carry_out();
  back.end();
}

std::function<void()> Transfers::job_of(const std::shared_ptr<Relocating>& pages) {
  return [this, pages, submitter = &t_state] {
    pages->is_beside = &t_state != submitter;
    relocate(*pages);
    if (pages->error) std::rethrow_exception(pages->error);
  };
}

void Transfers::relocate(Relocating& pages) noexcept {
  const double begin = base::seconds_now();
  try {
    pages.pages.carry_out();
  } catch (...) {
    pages.error = std::current_exception();
  }
  pages.seconds = base::seconds_now() - begin;
  pages.is_over.store(true, std::memory_order_release);
}

void Transfers::finish_page_out(Block& block) {
  if (block.residence == Residence::kOrphaned) return finish_orphan(block);
  const bool is_copied = block.copying;
  await_copy_of(block);
  const base::Stopwatch watch(counts_.page_out_handling_seconds);
  if (!is_copied) ++counts_.clean_drops;
  put_below(block);
}

/// Takes the block's pages, or its place, away. Throws IoError if the machine refused: then it is resident and clean.
void Transfers::put_below(Block& block) {
  if (const std::shared_ptr<Relocating> pages = std::exchange(block.relocated, nullptr)) {
    if (pages->is_beside) counts_.handling_beside_seconds += pages->seconds;
    if (block.is_passed_on()) {
      binding_.discard(block, passed_on_pages_.remove(block));
      settle_passed_on();
    } else {
      end_unbind(block, pages->pages);
    }
  } else {
    try {
      unbind(block);
    } catch (...) {
      restore(block);
      throw;
    }
  }
  remove_leaving(block);
  table_.change(block, Residence::kBelow);
  settle_pool();
}

/// Throws IoError if the copy failed: then the block is resident.
void Transfers::await_copy_of(Block& block) {
  if (!block.copying) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  try {
    queues_->wait(block.copy);
  } catch (...) {
    restore(block);
    throw;
  }
  block.copying = false;
  block.copy = {};
  count_page_out(block);
}

/// For a block that is still in its place. Throws IoError if the machine refused: then it is there still.
void Transfers::unbind(Block& block) {
  if (placed_ != nullptr) places_.leave(block);
  const Relocation pages = binding_.begin_unbind(block);
  try {
    pages.carry_out();
  } catch (...) {
    pages.cancel();
    throw;
  }
  end_unbind(block, pages);
}

/// The pages go to the pool if there is one.
void Transfers::end_unbind(Block& block, const Relocation& pages) noexcept {
  pages.end();
  if (pages.to != nullptr) binding_.discard(block, pages.there());
}

/// A failure is only counted.
void Transfers::finish_anyway(Block& block) noexcept {
  try {
    finish_page_out(block);
  } catch (const std::exception&) {
    ++counts_.failed_actions;
  }
}

void Transfers::take_back(Block& block) noexcept {
  if (block.relocated || !block.copying || !queues_->is_done(block.copy)) return cancel_page_out(block);
  try {
    await_copy_of(block);
    restore(block);
  } catch (const std::exception&) {
    ++counts_.failed_actions;
  }
}

void Transfers::cancel_page_out(Block& block) noexcept {
  if (block.residence == Residence::kOrphaned) return finish_orphan(block);
  if (block.is_passed_on()) return finish_anyway(block);
  if (block.copying && !queues_->cancel(std::exchange(block.copy, {}))) count_page_out(block);
  restore(block);
}

void Transfers::cancel_page_outs() noexcept {
  while (!leaving_.empty()) cancel_page_out(*leaving_.back());
}

/// Makes a leaving block resident again: dirty if it was being copied, else clean. Nobody copies from it.
void Transfers::restore(Block& block) noexcept {
  remove_leaving(block);
  const bool is_dirty = std::exchange(block.copying, false);
  if (is_dirty) {
    release_slot(block);
    if (block.is_passed_on())
      reclaim_pages(block);
    else
      make_accessible(block, std::exchange(block.relocated, nullptr).get());
  }
  block.copy = {};
  ++block.mended;
  table_.change(block, Residence::kResident, is_dirty ? 0 : kClean);
}

void Transfers::make_writable(Block& block) {
  if (!block.is_clean()) return;
  const base::Stopwatch watch(counts_.page_in_handling_seconds);
  binding_.make_writable(block);
  ++block.mended;
  release_slot(block);
  block.word.fetch_and(~kClean, std::memory_order_release);
}

void Transfers::release_slot(Block& block) {
  if (block.slot.bytes > Bytes(0)) queues_->release(std::exchange(block.slot, {}));
}

void Transfers::count_page_out(const Block& block) {
  ++counts_.page_outs;
  counts_.page_out_bytes += block.charged.count();
}

void Transfers::remove_leaving(Block& block) noexcept {
  leaving_.erase(std::find(leaving_.begin(), leaving_.end(), &block));
  if (!block.is_passed_on()) leaving_bytes_ -= block.charged;
}

Block* Transfers::find_leaving(std::uint64_t number) const {
  const auto found = std::ranges::find(leaving_, number, &Block::number);
  return found == leaving_.end() ? nullptr : *found;
}

}  // namespace tensorpager::pager
