#include "tensorpager/pager/admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

using base::Bytes;

void Admission::admit(PinSet& pins) {
  // Whatever is thrown, the misses are cleared.
  struct Clear {
    decltype(pins.misses_)& list;
    ~Clear() { list.clear(); }
  } const clear{pins.misses_};
  const PagingTime paging = core_.time_paging();
  core_.relief.with([&] { admit_once(pins); });
}

void Admission::admit_once(PinSet& pins) {
  for (;;) {
    std::vector<std::uint64_t> dropped;
    {
      const Lock lock(core_.mutex);
      dropped = dropped_among(pins);
      if (dropped.empty()) {
        admit_locked(pins);
        return core_.note_curve();
      }
    }
    pins.unpin_all();  // a replay needs room of its own
    dropped_.rebuild(dropped);
  }
}

void Admission::keep_room(PinSet& pins) {
  const Lock lock(core_.mutex);
  if (pins.begun_.end != OpEnd::kUnplanned && births_have_places()) return;
  make_room_for_births(pins, pins.expected_room());
}

std::optional<base::OverBudget> Admission::shortage_for(Bytes bytes) {
  const Lock lock(core_.mutex);
  const Bytes pinned = core_.room.pinned();
  if (pinned + bytes <= core_.ledger().budget()) return std::nullopt;
  return base::OverBudget(bytes, pinned, core_.ledger().budget());
}

bool Admission::births_have_places() const {
  if (core_.placed == nullptr || !core_.follower.is_told_to_source()) return false;
  PlacesOfBirths places;
  core_.executor.source()->places_of_births(places);
  const auto can_clear = [&](const PlannedPlace& place) { return core_.placed->places().can_clear(place); };
  return std::all_of(places.begin(), places.end(), can_clear);
}

void Admission::admit_locked(PinSet& pins) {
  // The same storage may come twice, once read and once written: the write counts.
  auto& misses = pins.misses_;
  std::sort(misses.begin(), misses.end(),
            [](const auto& a, const auto& b) { return a.block != b.block ? a.block < b.block : a.access > b.access; });
  const auto same = [](const auto& a, const auto& b) { return a.block == b.block; };
  misses.truncate(static_cast<std::size_t>(std::unique(misses.begin(), misses.end(), same) - misses.begin()));
  core_.transfers.with_fresh([&] {
    pin_resident(pins);
    page_in(pins);
  });
}

std::vector<std::uint64_t> Admission::dropped_among(const PinSet& pins) {
  std::vector<std::uint64_t> dropped;
  for (const auto& miss : pins.misses_)
    if (miss.block != nullptr && miss.block->is_dropped()) dropped.push_back(miss.block->number);
  return dropped;
}

void Admission::pin(PinSet& pins, Block& block, Access access) {
  TENSORPAGER_CHECK(core_.pins.pin_if_ready(block, access));
  pins.pins_.push_back(&block);
}

/// A miss's block is null once it is pinned: another try goes on from there.
void Admission::pin_resident(PinSet& pins) {
  for (const auto& miss : pins.misses_)
    if (miss.block != nullptr && miss.block->is_leaving()) core_.transfers.take_back(*miss.block);
  for (auto& miss : pins.misses_) {
    if (miss.block == nullptr || miss.block->is_absent()) continue;
    if (miss.access == Access::kWrite && miss.block->is_clean()) core_.transfers.make_writable(*miss.block);
    pin(pins, *std::exchange(miss.block, nullptr), miss.access);
  }
}

void Admission::page_in(PinSet& pins) {
  auto& misses = pins.misses_;
  Bytes absent;  // without a page-in in flight
  for (const auto& miss : misses)
    if (miss.block != nullptr && !miss.block->is_arriving()) absent += miss.block->charged;
  // The largest first: it is the hardest to place.
  if (core_.placed != nullptr)
    std::sort(misses.begin(), misses.end(), [](const auto& a, const auto& b) {
      return a.block != nullptr && (b.block == nullptr || a.block->charged > b.block->charged);
    });
  try {
    for (Arrival& arrival : core_.transfers.arriving())
      arrival.is_needed =
          std::any_of(misses.begin(), misses.end(), [&](const auto& miss) { return miss.block == arrival.block; });
    if (core_.placed == nullptr) core_.room.submit(absent);
    for (const auto& miss : misses) {
      if (miss.block == nullptr || miss.block->is_arriving()) continue;
      absent -= miss.block->charged;
      const Place place = make_place(pins, core_.room.wanted_for(*miss.block, absent));
      core_.transfers.begin_page_in(*miss.block, place, miss.access);
      core_.transfers.arriving().back().is_needed = true;
    }
    finish_page_ins(pins);
  } catch (...) {
    for (std::size_t i = core_.transfers.arriving().size(); i-- > 0;)
      if (core_.transfers.arriving()[i].is_needed) core_.transfers.cancel_page_in(*core_.transfers.arriving()[i].block);
    core_.transfers.cancel_page_outs();
    throw;
  }
}

void Admission::finish_page_ins(PinSet& pins) {
  for (auto& miss : pins.misses_) {
    if (miss.block == nullptr || !miss.block->is_arriving()) continue;
    core_.transfers.finish_page_in(*miss.block, miss.access);
    pin(pins, *std::exchange(miss.block, nullptr), miss.access);
  }
}

/// The resident ones may leave no place between them.
Place Admission::make_place(PinSet& pins, const Wanted& wanted) {
  try {
    return core_.room.make_place(wanted);
  } catch (const base::OverBudget&) {
    if (core_.placed == nullptr) throw;
    finish_page_ins(pins);
    if (!gather(pins, wanted.bytes)) throw;
  }
  return core_.room.make_place(wanted);
}

/// Moves the blocks of the set together if they leave no place so large, as far as the budget has it.
void Admission::make_room_for_births(PinSet& pins, Bytes expected) {
  if (core_.placed->places().has_gap(expected)) return;
  const Bytes pinned = core_.room.pinned();
  const Bytes budget = core_.ledger().budget();
  core_.transfers.with_fresh([&] { gather(pins, std::min(expected, std::max(budget, pinned) - pinned)); });
}

/// Moves the blocks that only this op has pinned together, if they leave no place so large. Nobody may have taken their
/// addresses yet. Returns false if the largest place is no larger after it.
bool Admission::gather(PinSet& pins, Bytes wanted) {
  const Bytes largest = core_.placed->places().largest_run();
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
  const Places::Gathering gathering = core_.placed->places().plan_gathering(movable);
  if (gathering.largest_run <= largest) return false;
  bool is_free = true;
  for (Block* block : gathering.to_evict) is_free = core_.transfers.page_out(*block) && is_free;
  if (is_free) {
    for (const auto& [block, to] : gathering.moves) core_.places.move(*block, to);
  }
  return is_free;
}

}  // namespace tensorpager::pager
