// What leaves is passed on before it is copied: pages to page-ins that are queued behind the copy, or places of an
// arena to any later user. All with the lock held.
#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

void Transfers::pass_pages_on(Block& block) {
  block.relocated->pages.end();
  passed_on_pages_.add(block, block.relocated->pages.to);
  leaving_bytes_ -= block.charged;
  table_.change(block, Residence::kPassedOn);
  settle_passed_on();
}

void Transfers::finish_passed_on() noexcept {
  while (!passed_on_pages_.empty() && is_copied(passed_on_pages_.oldest())) finish_anyway(passed_on_pages_.oldest());
}

/// Finishes the page-outs of passed on blocks that are among these copies, which are done: a page-in behind them is.
/// The addresses of pages that it took are free from here on.
void Transfers::forget_copied(const transfer::Fence& copies) {
  while (!passed_on_pages_.empty() && copies.covers(passed_on_pages_.oldest().copy))
    finish_page_out(passed_on_pages_.oldest());
}

/// After its copy failed: the pages that were passed on are the block's again, with its bytes, as nothing that is
/// queued behind a failed copy is read. Who has taken some of them is among those.
void Transfers::reclaim_pages(Block& block) noexcept {
  const std::shared_ptr<Relocating> pages = std::exchange(block.relocated, nullptr);
  for (std::size_t i = arriving_.size(); i-- > 0;)
    if (arriving_[i].after.covers(block.copy)) cancel_page_in(*arriving_[i].block);
  passed_on_pages_.remove(block);
  settle_passed_on();
  const Relocation back = binding_.begin_bind(block, pages->pages.there(), Access::kWrite);
  if (pages->is_moved()) back.carry_out();
  back.end();
}

void Transfers::pass_place_on(Block& block) {
  if (!block.copying) return finish_page_out(block);
  places_.pass_on(block);
  count_page_out(block);
  if (block.residence == Residence::kOrphaned) return release_orphan(block);
  put_below(block);
}

Block& Transfers::orphan_place(Block& block) {
  auto orphan = std::make_unique<Block>();
  orphan->size = block.size;
  orphan->charged = block.charged;
  orphan->number = block.number;
  orphan->copy = block.copy;
  orphan->copying = true;
  orphan->use().take_from(block.use());
  placed_->leave_place_to(*orphan, block);
  *std::find(leaving_.begin(), leaving_.end(), &block) = orphan.get();
  table_.change(block, Residence::kBelow);
  table_.add_orphan(*orphan);
  return *orphan.release();
}

/// Frees the place once its copy is done.
void Transfers::finish_orphan(Block& orphan) noexcept {
  try {
    const base::Stopwatch watch(counts_.page_out_stall_seconds);
    queues_->wait(orphan.copy);
    count_page_out(orphan);
  } catch (const std::exception&) {
    ++counts_.failed_actions;  // nobody needs the bytes
  }
  release_orphan(orphan);
}

void Transfers::release_orphan(Block& orphan) noexcept {
  remove_leaving(orphan);
  release_slot(orphan);
  release_memory(orphan);
  table_.change(orphan, Residence::kDead);
  settle_pool();
  delete &orphan;
}

void Transfers::release_memory(Block& block) noexcept {
  if (placed_ != nullptr && Places::has(block)) places_.leave(block);
  binding_.release(block);
}

}  // namespace tensorpager::pager
