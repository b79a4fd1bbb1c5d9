// Makes room for what becomes resident, and admits ops. All with the lock held.
#include <algorithm>
#include <cerrno>

#include "tensorpager/base/errors.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"
#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

using base::Bytes;

/// Submits page-outs until those in flight will leave this much room, all before the first is waited for. For bindings
/// without places.
void Pager::submit_room(Bytes bytes) {
  while (ledger_.resident() + bytes > ledger_.budget() + transfers_.leaving_bytes()) {
    Block* block = choose_victim();
    // Blocks that are accessed outside ops in turn stay: else each access would page out the next one.
    if (block != nullptr && is_in_use(*block) && cancel_unneeded_page_in()) continue;
    if (block != nullptr) {
      if (!binding_.page_mover()->may_unbind())
        throw base::IoError("mmap", "the kernel's limit of mappings (try `sysctl vm.max_map_count`)", bytes, ENOMEM);
      transfers_.begin_page_out(*block);  // or it was pinned meanwhile, and the next is another
      continue;
    }
    if (!end_a_transfer()) {
      // All that is left cannot be evicted: this much the program requires at least.
      floor_ = std::max(floor_.load(), (ledger_.resident() + bytes).count());
      throw base::OverBudget(bytes, ledger_.resident(), ledger_.budget());
    }
  }
}

/// If nothing else can leave: finishes one page-out in flight, or cancels one page-in that no op needs now. Returns
/// false if there is neither.
bool Pager::end_a_transfer() {
  if (!transfers_.leaving().empty()) {
    transfers_.finish_page_out(*transfers_.leaving().front());
    return true;
  }
  return cancel_unneeded_page_in();
}

/// Cancels the newest page-in that no op needs now. Returns false if there is none.
bool Pager::cancel_unneeded_page_in() {
  const auto unwanted = std::find_if(transfers_.arriving().rbegin(), transfers_.arriving().rend(),
                                     [](const Arrival& arrival) { return !arrival.is_needed; });
  if (unwanted == transfers_.arriving().rend()) return false;
  transfers_.cancel_page_in(*unwanted->block);
  return true;
}

void Pager::make_room(Bytes bytes) {
  try {
    while (!ledger_.fits(bytes)) {
      submit_room(bytes);
      if (ledger_.fits(bytes)) return;
      const bool is_passed_on = ledger_.resident() + bytes <= ledger_.budget();
      transfers_.finish_page_out(is_passed_on ? transfers_.passed_on_pages().oldest() : *transfers_.leaving().front());
    }
  } catch (...) {
    transfers_.cancel_page_outs();
    throw;
  }
}

/// Returns a free place; for a binding without places, once there is room.
Place Pager::make_place(const Wanted& wanted) {
  if (!is_placed_) {
    make_room(wanted.bytes);
    return {.bytes = wanted.bytes};
  }
  for (;;) {
    const Places::Found found = placed_->places().find(wanted, clock_.load(std::memory_order_relaxed));
    if (const auto* const place = std::get_if<Place>(&found)) return *place;
    if (const auto* const no_room = std::get_if<NoRoom>(&found)) {
      if (end_a_transfer()) continue;
      const Bytes pinned = pinned_now();
      floor_ = std::max(floor_.load(), (pinned + wanted.bytes).count());
      throw base::OverBudget(wanted.bytes, pinned, ledger_.budget(), no_room->largest_run);
    }
    const std::vector<Block*>& blocks = std::get<Places::ToEvict>(found).blocks;
    try {
      for (Block* block : blocks)
        transfers_.begin_page_out(*block);  // or it was pinned meanwhile, and the next run is another
      for (Block* block : blocks)
        if (block->is_leaving()) transfers_.finish_page_out(*block);
    } catch (...) {
      transfers_.cancel_page_outs();
      throw;
    }
  }
}

void Pager::bring_in(Block& block, Access access) {
  with_fresh_transfers([&] {
    if (!block.is_arriving()) transfers_.begin_page_in(block, make_place(place_for(block)), access);
    transfers_.finish_page_in(block, access);
  });
}

void Pager::admit(PinSet& pins) {
  // Whatever is thrown, the misses are cleared.
  struct Clear {
    decltype(pins.misses_)& list;
    ~Clear() { list.clear(); }
  } const clear{pins.misses_};
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  with_relief([&] { admit_once(pins); });
}

void Pager::admit_once(PinSet& pins) {
  auto& misses = pins.misses_;
  const Lock lock(*this);
  // The same storage may come twice, once read and once written: the write counts.
  std::sort(misses.begin(), misses.end(),
            [](const auto& a, const auto& b) { return a.block != b.block ? a.block < b.block : a.access > b.access; });
  const auto same = [](const auto& a, const auto& b) { return a.block == b.block; };
  misses.truncate(static_cast<std::size_t>(std::unique(misses.begin(), misses.end(), same) - misses.begin()));
  with_fresh_transfers([&] { admit_misses(pins); });
  note_curve();
}

/// Sets each miss's block to null once it is pinned.
void Pager::admit_misses(PinSet& pins) {
  auto& misses = pins.misses_;
  const auto end = misses.end();
  const auto pin = [&](Block& block, Access access) {
    TENSORPAGER_CHECK(pin_if_ready(block, access));
    pins.pins_.push_back(&block);
  };
  for (auto miss = misses.begin(); miss != end; ++miss)
    if (miss->block != nullptr && miss->block->is_leaving()) transfers_.take_back(*miss->block);
  Bytes absent;
  for (auto miss = misses.begin(); miss != end; ++miss) {
    if (miss->block == nullptr) continue;  // pinned by an attempt that was refused later on
    if (miss->block->is_absent()) {
      if (!miss->block->is_arriving()) absent += miss->block->charged;
      continue;
    }
    if (miss->access == Access::kWrite && miss->block->is_clean()) transfers_.make_writable(*miss->block);
    pin(*miss->block, miss->access);
    miss->block = nullptr;
  }
  // The largest first: it is the hardest to place.
  if (is_placed_)
    std::sort(misses.begin(), end, [](const auto& a, const auto& b) {
      return a.block != nullptr && (b.block == nullptr || a.block->charged > b.block->charged);
    });
  try {
    for (Arrival& arrival : transfers_.arriving())
      arrival.is_needed =
          std::any_of(misses.begin(), end, [&](const auto& miss) { return miss.block == arrival.block; });
    if (!is_placed_) submit_room(absent);
    const auto finish_page_ins = [&] {
      for (auto miss = misses.begin(); miss != end; ++miss) {
        if (miss->block == nullptr || !miss->block->is_arriving()) continue;
        transfers_.finish_page_in(*miss->block, miss->access);
        pin(*miss->block, miss->access);
        miss->block = nullptr;
      }
    };
    for (auto miss = misses.begin(); miss != end; ++miss) {
      if (miss->block == nullptr || miss->block->is_arriving()) continue;
      absent -= miss->block->charged;
      const Wanted wanted = place_for(*miss->block, absent);
      Place place;
      try {
        place = make_place(wanted);
      } catch (const base::OverBudget&) {
        // The resident ones may leave no place between them.
        if (!is_placed_) throw;
        finish_page_ins();
        if (!gather(pins, wanted.bytes)) throw;
        place = make_place(wanted);
      }
      transfers_.begin_page_in(*miss->block, place, miss->access);
      transfers_.arriving().back().is_needed = true;
    }
    finish_page_ins();
  } catch (...) {
    for (std::size_t i = transfers_.arriving().size(); i-- > 0;)
      if (transfers_.arriving()[i].is_needed) transfers_.cancel_page_in(*transfers_.arriving()[i].block);
    transfers_.cancel_page_outs();
    throw;
  }
}

void Pager::keep_room(PinSet& pins) {
  const Lock lock(*this);
  std::vector<Block*> blocks(pins.pins_.begin(), pins.pins_.end());
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (const Block* block : blocks) pins.arguments_ += block->charged;
  pins.created_before_ = t_state.created;
  if (pins.end_ != OpEnd::kUnplanned && births_have_places()) return;
  const Bytes expected = pins.expected_room();
  if (placed_->places().has_gap(expected)) return;
  const Bytes pinned = pinned_now();
  with_fresh_transfers([&] { gather(pins, std::min(expected, std::max(ledger_.budget(), pinned) - pinned)); });
}

/// Moves the blocks that only this op has pinned together, if they leave no place so large. Nobody may have taken their
/// addresses yet. Returns false if the largest place is no larger after it.
bool Pager::gather(PinSet& pins, Bytes wanted) {
  const Bytes largest = placed_->places().largest_run();
  if (largest >= wanted) return true;
  std::vector<Block*> blocks(pins.pins_.begin(), pins.pins_.end());
  std::sort(blocks.begin(), blocks.end());
  std::vector<Block*> movable;
  for (auto one = blocks.begin(); one != blocks.end();) {
    const auto next = std::find_if(one, blocks.end(), [&](Block* other) { return other != *one; });
    if (((*one)->state() & ~kClean) == static_cast<std::uint64_t>(next - one)) movable.push_back(*one);
    one = next;
  }
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
  const Places::Gathering gathering = placed_->places().plan_gathering(movable);
  if (gathering.largest_run <= largest) return false;
  bool is_free = true;
  for (Block* block : gathering.to_evict) is_free = transfers_.page_out(*block) && is_free;
  if (is_free) {
    transfers_.await_copy(transfers_.passed_on().newest_copy());
    for (const auto& [block, to] : gathering.moves) placed_->move(*block, to);
  }
  return is_free;
}

std::optional<base::OverBudget> Pager::shortage_for(Bytes bytes) {
  const Lock lock(*this);
  const Bytes pinned = pinned_now();
  if (pinned + bytes <= ledger_.budget()) return std::nullopt;
  return base::OverBudget(bytes, pinned, ledger_.budget());
}

/// Bytes that cannot be evicted now.
Bytes Pager::pinned_now() const {
  Bytes pinned = ledger_.slabs();
  for (std::size_t i = 0; i < table_.residents(); ++i)
    if (table_.resident(i).is_pinned()) pinned += table_.resident(i).charged;
  for (const Arrival& arrival : transfers_.arriving())
    if (arrival.is_needed) pinned += arrival.block->charged;  // by the op that is being admitted
  return pinned;
}

void Pager::page_out_all() {
  const Lock lock(*this);
  executor_.forget_page_ins();
  while (!transfers_.arriving().empty()) transfers_.cancel_page_in(*transfers_.arriving().back().block);
  std::vector<Block*> resident;
  for (std::size_t i = 0; i < table_.residents(); ++i) resident.push_back(&table_.resident(i));
  try {
    for (Block* block : resident) transfers_.begin_page_out(*block);
    while (!transfers_.leaving().empty()) transfers_.finish_page_out(*transfers_.leaving().front());
  } catch (...) {
    transfers_.cancel_page_outs();
    throw;
  }
}

}  // namespace tensorpager::pager
