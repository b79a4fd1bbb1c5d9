#include "tensorpager/pager/room.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <variant>
#include <vector>

#include "tensorpager/base/errors.h"

namespace tensorpager::pager {

using base::Bytes;

namespace {

/// An unplanned block is assumed as far from its next use as from its last. A block accessed since the last op is in
/// use outside ops, which plans know nothing of.
std::uint64_t distance_of(const ActionSource& source, const Block& block, std::uint64_t now) {
  const std::uint64_t last_use = block.last_use.load(std::memory_order_relaxed);
  if (last_use >= now) return 0;
  return source.next_use(block).value_or(now - last_use);
}

}  // namespace

void Room::submit(Bytes bytes) {
  while (ledger().resident() + bytes > ledger().budget() + transfers_.leaving_bytes()) {
    Block* const block = choose_victim();
    // Blocks that are accessed outside ops in turn stay: else each access would page out the next one.
    const bool is_in_use =
        block != nullptr && block->last_use.load(std::memory_order_relaxed) >= clock_.load(std::memory_order_relaxed);
    if (is_in_use && cancel_unneeded_page_in()) continue;
    if (block != nullptr) {
      if (!mover_->may_unbind())
        throw base::IoError("mmap", "the kernel's limit of mappings (try `sysctl vm.max_map_count`)", bytes, ENOMEM);
      transfers_.begin_page_out(*block);  // or it was pinned meanwhile, and the next is another
      continue;
    }
    if (!end_a_transfer()) {
      // All that is left cannot be evicted: this much the program requires at least.
      floor_.note(ledger().resident() + bytes);
      throw base::OverBudget(bytes, ledger().resident(), ledger().budget());
    }
  }
}

void Room::make(Bytes bytes) {
  try {
    while (!ledger().fits(bytes)) {
      submit(bytes);
      if (ledger().fits(bytes)) return;
      const bool is_passed_on = ledger().resident() + bytes <= ledger().budget();
      transfers_.finish_page_out(is_passed_on ? transfers_.passed_on_pages().oldest() : *transfers_.leaving().front());
    }
  } catch (...) {
    transfers_.cancel_page_outs();
    throw;
  }
}

Place Room::make_place(const Wanted& wanted) {
  if (placed_ == nullptr) {
    make(wanted.bytes);
    return {.bytes = wanted.bytes};
  }
  for (;;) {
    const Places::Found found = placed_->places().find(wanted, clock_.load(std::memory_order_relaxed));
    if (const auto* const place = std::get_if<Place>(&found)) return *place;
    if (const auto* const no_room = std::get_if<NoRoom>(&found)) {
      if (end_a_transfer()) continue;
      const Bytes pinned = this->pinned();
      floor_.note(pinned + wanted.bytes);
      const bool is_on_device = placed_->compute_queues() != nullptr;  // which has no other binding
      throw base::OverBudget(wanted.bytes, pinned, ledger().budget(), no_room->largest_run,
                             is_on_device ? "a smaller batch" : "--binding stable");
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

Wanted Room::wanted_for(const Block& block, Bytes keep_whole) const {
  const ActionSource* const source = placed_ != nullptr ? executor_.source() : nullptr;
  return {.bytes = block.charged,
          .keep_whole = keep_whole,
          .at = source != nullptr ? source->place_of(block) : std::nullopt};
}

void Room::bring_in(Block& block, Access access) {
  transfers_.with_fresh([&] {
    if (!block.is_arriving()) transfers_.begin_page_in(block, make_place(wanted_for(block)), access);
    transfers_.finish_page_in(block, access);
  });
}

void Room::bring_in_anyway(Block& block, Access access) {
  Place place{.bytes = block.charged};
  try {
    if (!block.is_arriving()) transfers_.with_fresh([&] { place = make_place(wanted_for(block)); });
  } catch (const std::exception&) {
    ++counts_.faults_over_budget;
  }
  if (!block.is_arriving()) transfers_.begin_page_in(block, place, access);
  transfers_.finish_page_in(block, access);
}

Bytes Room::pinned() const {
  Bytes pinned = ledger().slabs();
  for (std::size_t i = 0; i < table_.residents(); ++i)
    if (table_.resident(i).is_pinned()) pinned += table_.resident(i).charged;
  for (const Arrival& arrival : transfers_.arriving())
    if (arrival.is_needed) pinned += arrival.block->charged;  // by the op that is being admitted
  return pinned;
}

/// The evictable block whose next use, if a plan knows it, is farthest; null if nothing can leave.
Block* Room::choose_victim() const {
  if (executor_.source() == nullptr) return table_.choose_victim();
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  Block* farthest = nullptr;
  std::uint64_t farthest_distance = 0;
  for (std::size_t i = 0; i < table_.residents(); ++i) {
    Block& block = table_.resident(i);
    if (block.is_pinned()) continue;
    const std::uint64_t distance = distance_of(*executor_.source(), block, now);
    if (farthest != nullptr && distance <= farthest_distance) continue;
    farthest = &block;
    farthest_distance = distance;
  }
  return farthest;
}

/// If nothing else can leave: finishes one page-out in flight, or cancels one page-in that no op needs now. Returns
/// false if there is neither.
bool Room::end_a_transfer() {
  if (!transfers_.leaving().empty()) {
    transfers_.finish_page_out(*transfers_.leaving().front());
    return true;
  }
  return cancel_unneeded_page_in();
}

/// Cancels the newest page-in that no op needs now. Returns false if there is none.
bool Room::cancel_unneeded_page_in() {
  const auto unwanted = std::find_if(transfers_.arriving().rbegin(), transfers_.arriving().rend(),
                                     [](const Arrival& arrival) { return !arrival.is_needed; });
  if (unwanted == transfers_.arriving().rend()) return false;
  transfers_.cancel_page_in(*unwanted->block);
  return true;
}

}  // namespace tensorpager::pager
