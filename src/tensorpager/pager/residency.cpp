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

void Pager::make_place(const Wanted& wanted) {
  if (!is_placed_) return make_room(wanted.bytes);
  for (;;) {
    const std::uint64_t now = clock_.load(std::memory_order_relaxed);
    const auto in_the_way = binding_.in_the_way(wanted, now);
    if (!in_the_way) {
      const Bytes pinned = pinned_now();
      floor_ = std::max(floor_.load(), (pinned + wanted.bytes).count());
      throw base::OverBudget(wanted.bytes, pinned, ledger_.budget(), binding_.largest_run(now));
    }
    if (in_the_way->empty()) return;
    for (Block* block : *in_the_way) page_out(*block);  // or it was pinned meanwhile, and the next run is another
  }
}

bool Pager::page_out(Block& block) {
  std::uint64_t word = block.state();
  if ((word & (kAbsent | kUnclaimed)) == 0 && !binding_.is_claimed(block)) {
    block.word.fetch_or(kUnclaimed);
    return false;
  }
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
  if (!is_placed_) make_room(absent);
  // The largest first: it is the hardest to place.
  if (is_placed_)
    std::sort(misses.begin(), end, [](const auto& a, const auto& b) {
      return a.block != nullptr && (b.block == nullptr || a.block->charged > b.block->charged);
    });
  for (auto miss = misses.begin(); miss != end; ++miss) {
    if (miss->block == nullptr) continue;
    absent -= miss->block->charged;
    if (is_placed_) make_place({.bytes = miss->block->charged, .keep_whole = absent});
    page_in(*miss->block, miss->access);
    pin(*miss->block, miss->access);
  }
  note_curve();
}

void Pager::keep_room(PinSet& pins) {
  std::vector<Block*> blocks(pins.pins_.begin(), pins.pins_.end());
  std::sort(blocks.begin(), blocks.end());
  std::vector<Block*> movable;
  const Lock lock(*this);
  for (auto one = blocks.begin(); one != blocks.end();) {
    const auto next = std::find_if(one, blocks.end(), [&](Block* other) { return other != *one; });
    pins.arguments_ += (*one)->charged;
    if (((*one)->state() & ~kClean) == static_cast<std::uint64_t>(next - one)) movable.push_back(*one);
    one = next;
  }
  pins.created_before_ = t_state.created;
  const Bytes expected = pins.expected_room();
  if (binding_.has_gap(expected)) return;
  const Bytes pinned = pinned_now();
  const Bytes wanted = std::min(expected, std::max(ledger_.budget(), pinned) - pinned);
  const Bytes largest = binding_.largest_run(clock_.load(std::memory_order_relaxed));
  if (largest >= wanted) return;

  // Threads that pin one of them from here on wait for the lock.
  std::erase_if(movable, [](Block* block) {
    std::uint64_t word = block->state();
    return (word & kAbsent) != 0 || !block->word.compare_exchange_strong(word, word | kAbsent);
  });
  struct Present {  // again, whatever comes
    const std::vector<Block*>& blocks;
    ~Present() {
      for (Block* block : blocks) block->word.fetch_and(~kAbsent, std::memory_order_release);
    }
  } const present{movable};
  const Binding::Gathering gathering = binding_.plan_gathering(movable);
  if (gathering.largest_run <= largest) return;
  bool is_free = true;
  for (Block* block : gathering.in_the_way) is_free = page_out(*block) && is_free;
  if (is_free) binding_.gather(gathering);
}

std::optional<base::OverBudget> Pager::shortage_for(Bytes bytes) {
  const Lock lock(*this);
  const Bytes pinned = pinned_now();
  if (pinned + bytes <= ledger_.budget()) return std::nullopt;
  return base::OverBudget(bytes, pinned, ledger_.budget());
}

/// What cannot be evicted now.
Bytes Pager::pinned_now() const {
  Bytes pinned = ledger_.slabs();
  for (std::size_t i = 0; i < policy_->size(); ++i)
    if (policy_->at(i)->is_pinned()) pinned += policy_->at(i)->charged;
  return pinned;
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
