// Notifies an action source of ops. All with the lock held, but for the calls of ops.
#include <algorithm>
#include <utility>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {

void Pager::follow(ActionSource* source, const Prepare& prepare) {
  const Lock lock(*this);
  if (prepare) {
    std::unordered_map<std::uint64_t, Block*> blocks;
    for (std::size_t i = 0; i < table_.residents(); ++i) blocks[table_.resident(i).number] = &table_.resident(i);
    for (Block* block : table_.absent()) blocks[block->number] = block;
    prepare(blocks);
  }
  count_followed(counts_);
  executor_.follow(source);
  follower_ = source != nullptr ? &t_state : nullptr;
  is_followed_.store(source != nullptr, std::memory_order_relaxed);
}

OpEnd Pager::begin_op(const base::OpSignature& op, std::span<Block* const> touched) {
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  const Lock lock(*this);
  if (!is_told_to_source()) return OpEnd::kUnplanned;
  const bool is_expected = executor_.begin_op(op, touched);
  note_curve();
  if (!is_expected) return OpEnd::kUnplanned;
  return executor_.source()->moves_at_end() ? OpEnd::kMoves : OpEnd::kQuiet;
}

void Pager::end_op(OpEnd end) noexcept {
  if (end == OpEnd::kQuiet) return ended_.store(&t_state, std::memory_order_release);
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  const Lock lock(*this);
  if (is_told_to_source()) executor_.end_op();
}

/// Whether all that the op under way allocates can go to its planned places.
bool Pager::births_have_places() {
  if (!is_told_to_source()) return false;
  std::vector<PlannedPlace> places;
  executor_.source()->places_of_births(places);
  return std::ranges::all_of(places,
                             [&](const PlannedPlace& place) { return placed_->places().to_clear(place).has_value(); });
}

Wanted Pager::place_for(const Block& block, base::Bytes keep_whole) const {
  return {.bytes = block.charged,
          .keep_whole = keep_whole,
          .at = is_placed_ && executor_.source() != nullptr ? executor_.source()->place_of(block) : std::nullopt};
}

namespace {

/// An unplanned block is assumed as far from its next use as from its last. A block accessed since the last op is in
/// use outside ops, which plans know nothing of.
std::uint64_t distance_of(const ActionSource& source, const Block& block, std::uint64_t now) {
  const std::uint64_t last_use = block.last_use.load(std::memory_order_relaxed);
  if (last_use >= now) return 0;
  return source.next_use(block).value_or(now - last_use);
}

}  // namespace

/// The evictable block whose next use, if a plan knows it, is farthest; null if nothing can leave.
Block* Pager::choose_victim() {
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

}  // namespace tensorpager::pager
