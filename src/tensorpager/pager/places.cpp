#include "tensorpager/pager/places.h"

#include <algorithm>
#include <utility>

namespace tensorpager::pager {

using base::Bytes;

Block* Places::block_at(std::uint64_t offset) const {
  const auto found = blocks_.find(offset);
  return found != blocks_.end() ? found->second : nullptr;
}

std::vector<Block*> Places::blocks_at(std::span<const std::uint64_t> offsets) const {
  std::vector<Block*> blocks;
  blocks.reserve(offsets.size());
  for (const std::uint64_t offset : offsets) blocks.push_back(blocks_.at(offset));
  return blocks;
}

arena::Placement::Evictability Places::evictability(std::uint64_t now) const {
  return [this, now](std::uint64_t offset) -> std::optional<arena::Placement::Evictable> {
    const Block* block = block_at(offset);
    if (block == nullptr) return std::nullopt;
    if (!block->is_leaving() && (block->is_absent() || block->is_pinned())) return std::nullopt;
    const std::uint64_t last_use = std::min(now, block->last_use.load(std::memory_order_relaxed));
    return arena::Placement::Evictable{.is_clean = block->is_clean() || block->is_leaving(),
                                       .unused_ops = now - last_use};
  };
}

std::vector<Block*> Places::set_limit(Bytes limit) {
  placement_.set_limit(std::min(limit, most_));
  std::vector<Block*> beyond;
  for (const std::uint64_t offset : placement_.beyond_limit())
    if (Block* block = block_at(offset)) beyond.push_back(block);
  return beyond;
}

Places::Found Places::find(const Wanted& wanted, std::uint64_t now) const {
  const arena::Found found = placement_.find(wanted, evictability(now));
  if (const auto* const to_evict = std::get_if<arena::ToEvict>(&found))
    return ToEvict{to_evict->place, blocks_at(to_evict->pieces)};
  if (const auto* const no_room = std::get_if<NoRoom>(&found)) return *no_room;
  return std::get<Place>(found);
}

std::optional<std::vector<Block*>> Places::to_clear(const PlannedPlace& place) const {
  const auto at = find(place);
  const auto pieces = at ? placement_.to_clear(*at, evictability(0)) : std::nullopt;
  return pieces ? std::optional(blocks_at(*pieces)) : std::nullopt;
}

bool Places::can_clear(const PlannedPlace& place) const {
  const auto at = find(place);
  return at && placement_.can_clear(*at, evictability(0));
}

Places::Gathering Places::plan_gathering(std::span<Block* const> movable) const {
  const auto is_movable = [&](std::uint64_t offset) {
    return std::binary_search(movable.begin(), movable.end(), block_at(offset));
  };
  const auto plan = placement_.plan_gathering(is_movable, evictability(0));
  Gathering gathering{.to_evict = blocks_at(plan.to_remove), .moves = {}, .largest_run = plan.largest_run};
  for (const auto& [from, to] : plan.slides) {
    Block* block = blocks_.at(from);
    gathering.moves.push_back({block, {to, block->charged}});
  }
  return gathering;
}

void Places::take(const Place& place, Block& block) {
  placement_.take(place);
  blocks_.emplace(place.offset, &block);
  block.place = place.offset;
}

void Places::give_back(Block& block) {
  const std::uint64_t offset = std::exchange(block.place, kNowhere);
  placement_.give_back(offset);
  blocks_.erase(offset);
}

void Places::move(Block& block, const Place& to) {
  placement_.move(block.place, to);
  blocks_.erase(block.place);
  blocks_.emplace(to.offset, &block);
  block.place = to.offset;
}

void Places::leave_to(Block& old, Block& block) {
  blocks_.erase(block.place);
  old.place = std::exchange(block.place, kNowhere);
}

void Places::hand_over(Block& block, Block& heir) {
  blocks_.at(block.place) = &heir;
  heir.place = std::exchange(block.place, kNowhere);
}

}  // namespace tensorpager::pager
