#include "tensorpager/sim/bookkeeping_binding.h"

#include <algorithm>
#include <utility>

namespace tensorpager::sim {

using arena::Fit;
using base::Bytes;
using pager::Block;

BookkeepingBinding::BookkeepingBinding(arena::AddressSpace& space, Bytes granule, Bytes reserve_begin,
                                       Bytes reserve_end)
    : space_(space),
      granule_(granule),
      reserve_begin_(base::round_up(reserve_begin, granule).count()),
      reserve_end_(reserve_end.count() / granule.count() * granule.count()),
      region_(granule) {}

std::vector<Block*> BookkeepingBinding::set_limit(Bytes budget) {
  region_.set_limit(Bytes(std::min(budget, base::kUnlimited).count() / granule_.count() * granule_.count()));
  return {};
}

/// Returns the block at `offset` if it can be evicted; null for a slab, and for a block that is pinned or absent.
Block* BookkeepingBinding::evictable_at(std::uint64_t offset) const {
  auto* block = static_cast<Block*>(space_.owner_at(places_.at(offset).name));
  if (block == nullptr) return nullptr;
  return block->is_leaving() || (!block->is_absent() && !block->is_pinned()) ? block : nullptr;
}

arena::Region::Cost BookkeepingBinding::cost(std::uint64_t now) const {
  return [this, now](std::uint64_t offset, Bytes size) -> std::optional<double> {
    const Block* block = evictable_at(offset);
    if (block == nullptr) return std::nullopt;
    const std::uint64_t last_use = std::min(now, block->last_use.load(std::memory_order_relaxed));
    return static_cast<double>(size.count()) / static_cast<double>(now - last_use + 1);
  };
}

std::optional<std::vector<Block*>> BookkeepingBinding::in_the_way_at(std::uint64_t offset, Bytes bytes) const {
  if (offset + bytes.count() > region_.limit().count()) return std::nullopt;
  std::vector<Block*> blocks;
  for (const std::uint64_t piece : region_.pieces_in(offset, bytes)) {
    Block* block = evictable_at(piece);
    if (block == nullptr) return std::nullopt;
    blocks.push_back(block);
  }
  return blocks;
}

std::optional<std::vector<Block*>> BookkeepingBinding::in_the_way(const pager::Wanted& wanted, std::uint64_t now) {
  std::optional<std::uint64_t> at = wanted.at ? wanted.at : std::exchange(next_if_unsaid_, std::nullopt);
  if (wanted.is_slab) at = region_.limit().count() - wanted.bytes.count();
  if (at) {
    // If a block in the range cannot be evicted, this one is placed elsewhere, like an unplanned block.
    auto blocks = in_the_way_at(*at, wanted.bytes);
    next_place_ = *at;
    if (blocks || wanted.is_slab) return blocks;
  }
  auto gap = region_.find_gap_within(reserve_begin_, reserve_end_, wanted.bytes);
  if (!gap) gap = region_.find_gap(wanted.bytes);
  if (gap) {
    next_place_ = *gap;
    return std::vector<Block*>();
  }
  const auto run = region_.cheapest_run(wanted.bytes, Fit::kCheapest, cost(now));
  if (!run) return std::nullopt;
  next_place_ = run->offset;
  std::vector<Block*> blocks;
  for (const std::uint64_t offset : run->to_remove) blocks.push_back(evictable_at(offset));
  return blocks;
}

std::byte* BookkeepingBinding::make_name(Bytes bytes) { return space_.take(base::round_up(bytes, base::kPage)); }

void BookkeepingBinding::settle(std::byte* name, Bytes bytes) {
  region_.take(next_place_, bytes);
  places_.emplace(next_place_, Place{bytes, name});
  offsets_.emplace(name, next_place_);
}

void BookkeepingBinding::leave(std::byte* name) {
  const auto known = offsets_.find(name);
  region_.give_back(known->second);
  places_.erase(known->second);
  offsets_.erase(known);
}

void BookkeepingBinding::leave_place_to(Block& old, Block& block) {
  old.data = make_name(old.charged);
  const std::uint64_t offset = offsets_.extract(block.data).mapped();
  places_.at(offset).name = old.data;
  offsets_.emplace(old.data, offset);
}

std::byte* BookkeepingBinding::acquire(Bytes charged, Bytes) {
  std::byte* name = make_name(charged);
  settle(name, charged);
  return name;
}

std::byte* BookkeepingBinding::acquire_slab_chunk(Bytes size, Bytes) { return acquire(size, {}); }

void BookkeepingBinding::release(Block& block) noexcept {
  if (offsets_.contains(block.data)) leave(block.data);
  space_.give_back(block.data, base::round_up(block.charged, base::kPage));
}

std::vector<arena::Piece> BookkeepingBinding::stage(Block& block, Bytes) {
  settle(block.data, block.charged);
  return {{block.data, block.charged}};
}

void BookkeepingBinding::discard(std::span<const arena::Piece> pieces) noexcept {
  for (const arena::Piece& piece : pieces) leave(piece.at);
}

}  // namespace tensorpager::sim
