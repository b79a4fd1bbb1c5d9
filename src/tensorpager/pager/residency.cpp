// Paging itself: room, out, in. All with the lock held.
#include <algorithm>
#include <cerrno>

#include "tensorpager/base/clock.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

using base::Bytes;

void Pager::make_room(Bytes bytes) {
  while (!ledger_.fits(bytes)) {
    Block* block = policy_->choose();
    if (block == nullptr) {
      // All that is left cannot be evicted: this much the program requires at least.
      floor_ = std::max(floor_.load(), (ledger_.resident() + bytes).count());
      throw base::OverBudget(bytes, ledger_.resident(), ledger_.budget());
    }
    if (!binding_.may_unbind())
      throw base::IoError("mmap", "the kernel's limit of mappings (try `sysctl vm.max_map_count`)", bytes, ENOMEM);
    page_out(*block);
  }
}

bool Pager::page_out(Block& block) {
  std::uint64_t word = block.state();
  if ((word & ~kClean) != 0 || !block.word.compare_exchange_strong(word, kAbsent)) return false;
  if ((word & kClean) == 0) {
    const base::Stopwatch watch(counts_.stall_seconds);
    bool reserved = false;
    try {
      block.slot = tier_->reserve(block.charged);
      reserved = true;
      binding_.begin_page_out(block);
      tier_->wait(tier_->submit_page_out({block.data, block.charged.count()}, block.slot, Bytes(0)));
    } catch (...) {
      binding_.cancel_page_out(block);
      if (reserved) tier_->release(block.slot);
      block.word.store(0, std::memory_order_release);
      throw;
    }
    ++counts_.page_outs;
    counts_.page_out_bytes += block.charged.count();
  } else {
    ++counts_.clean_drops;
  }
  policy_->remove(block);
  binding_.unbind(block);
  ledger_.page_out(block.charged);
  settle_pool();
  add_absent(block);
  return true;
}

void Pager::page_in(Block& block, Access access) {
  const std::vector<arena::Piece> pieces = binding_.stage(block, ledger_.pool_allowance(block.charged));
  {
    const base::Stopwatch watch(counts_.stall_seconds);
    try {
      Bytes at;
      for (const arena::Piece& piece : pieces) {
        tier_->wait(tier_->submit_page_in(block.slot, at, {piece.at, piece.bytes.count()}));
        at += piece.bytes;
      }
    } catch (...) {
      binding_.discard(pieces);
      settle_pool();
      throw;
    }
  }
  binding_.bind(block, pieces, access);
  settle_pool();
  ledger_.page_in(block.charged);
  remove_absent(block);
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  policy_->add(block);
  if (access == Access::kWrite) release_slot(block);
  ++block.mended;
  ++counts_.page_ins;
  counts_.page_in_bytes += block.charged.count();
  block.word.store(access == Access::kWrite ? 0 : kClean, std::memory_order_release);
}

void Pager::make_writable(Block& block) {
  binding_.make_writable(block);
  ++block.mended;
  release_slot(block);
  block.word.fetch_and(~kClean, std::memory_order_release);
}

void Pager::release_slot(Block& block) {
  tier_->release(block.slot);
  block.slot = {};
}

void Pager::admit(PinSet& pins) {
  // Whatever comes, they are dealt with once.
  struct Clear {
    decltype(pins.misses_)& list;
    ~Clear() { list.clear(); }
  } const clear{pins.misses_};
  with_relief([&] { admit_once(pins); });
}

void Pager::admit_once(PinSet& pins) {
  auto& misses = pins.misses_;
  const Lock lock(*this);
  // The same storage may come twice, once read and once written: the write counts.
  std::sort(misses.begin(), misses.end(),
            [](const auto& a, const auto& b) { return a.block != b.block ? a.block < b.block : a.access > b.access; });
  const auto end =
      std::unique(misses.begin(), misses.end(), [](const auto& a, const auto& b) { return a.block == b.block; });
  const auto pin = [&](Block& block, Access access) {
    TENSORPAGER_CHECK(pin_if_ready(block, access));
    pins.pins_.push_back(&block);
  };
  Bytes absent;
  for (auto miss = misses.begin(); miss != end; ++miss) {
    if (miss->block == nullptr) continue;  // pinned by a try that was refused later on
    if (miss->block->is_absent()) {
      absent += miss->block->charged;
      continue;
    }
    if (miss->access == Access::kWrite && miss->block->is_clean()) make_writable(*miss->block);
    pin(*miss->block, miss->access);
    miss->block = nullptr;
  }
  make_room(absent);
  for (auto miss = misses.begin(); miss != end; ++miss) {
    if (miss->block == nullptr) continue;
    page_in(*miss->block, miss->access);
    pin(*miss->block, miss->access);
  }
  note_curve();
}

std::optional<base::OverBudget> Pager::shortage_for(Bytes bytes) {
  const Lock lock(*this);
  Bytes pinned = ledger_.slabs();
  for (std::size_t i = 0; i < policy_->size(); ++i)
    if (policy_->at(i)->is_pinned()) pinned += policy_->at(i)->charged;
  if (pinned + bytes <= ledger_.budget()) return std::nullopt;
  return base::OverBudget(bytes, pinned, ledger_.budget());
}

void Pager::page_out_all() {
  const Lock lock(*this);
  std::vector<Block*> resident;
  for (std::size_t i = 0; i < policy_->size(); ++i) resident.push_back(policy_->at(i));
  for (Block* block : resident) page_out(*block);
}

void Pager::add_absent(Block& block) {
  block.list_index = static_cast<std::uint32_t>(absent_.size());
  absent_.push_back(&block);
}

void Pager::remove_absent(Block& block) noexcept {
  Block* last = absent_.back();
  absent_[block.list_index] = last;
  last->list_index = block.list_index;
  absent_.pop_back();
}

}  // namespace tensorpager::pager
