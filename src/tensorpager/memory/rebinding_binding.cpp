#include "tensorpager/memory/rebinding_binding.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::memory {

using arena::Fit;
using arena::Piece;
using base::Bytes;
using pager::Access;
using pager::Block;

namespace {

/// The part of the arena beyond the slabs that they may grow into: 2 %, and room for some chunks where that is little.
constexpr std::uint64_t kReserveShare = 50;
constexpr Bytes kLeastReserve{std::uint64_t{1} << 20};
constexpr Bytes kMostReserve{std::uint64_t{256} << 20};  // a large budget does not need more
constexpr Bytes kOpenStep{std::uint64_t{32} << 20};
constexpr int kPoison = 0xFF;  // NaN as a float, -1 as an index
/// A dirty block must be written to the tier before it can go, and both kinds must be read back.
constexpr double kDirtyCost = 2, kCleanCost = 1;

/// Null: a slab chunk, or a page-in in flight.
bool can_leave(const Block* block) {
  return block != nullptr && (block->is_leaving() || (!block->is_absent() && !block->is_pinned()));
}

}  // namespace

RebindingBinding::RebindingBinding(arena::AddressSpace& space, Holders& holders, PlaceReuse reuse)
    : space_(space),
      holders_(holders),
      reuse_(reuse),
      range_(base::round_up(base::physical_memory() + base::physical_memory(), kOpenStep)),
      base_(space.take(range_)),
      is_open_(range_.count() / kOpenStep.count()) {}

void RebindingBinding::protect(std::byte* at, Bytes size, int protection) {
  ++system_calls_;
  if (mprotect(at, size.count(), protection) != 0) throw base::IoError("mprotect", "the arena", size, errno);
}

std::vector<Block*> RebindingBinding::set_limit(Bytes budget) {
  const Bytes limit = std::min(budget, range_);
  region_.set_limit(Bytes(limit.count() / base::kPage.count() * base::kPage.count()));
  keep_low();
  std::vector<Block*> beyond;
  for (const std::uint64_t offset : region_.beyond_limit())
    if (Block* block = block_at(offset)) beyond.push_back(block);
  return beyond;
}

Block* RebindingBinding::block_at(std::uint64_t offset) const {
  return static_cast<Block*>(space_.owner_at(base_ + offset));
}

arena::Region::Cost RebindingBinding::cost(std::uint64_t now) const {
  // Bytes that eviction moves, over how long the block was not used: its likely cost per op.
  return [this, now](std::uint64_t offset, Bytes size) -> std::optional<double> {
    const Block* block = block_at(offset);
    if (!can_leave(block)) return std::nullopt;
    const std::uint64_t last_use = std::min(now, block->last_use.load(std::memory_order_relaxed));
    const double moved =
        static_cast<double>(size.count()) * (block->is_clean() || block->is_leaving() ? kCleanCost : kDirtyCost);
    return moved / static_cast<double>(now - last_use + 1);
  };
}

std::optional<std::uint64_t> RebindingBinding::offset_of(const pager::PlannedPlace& place) const {
  const std::uint64_t end = place.offset + place.bytes.count();
  return end <= region_.limit().count() ? std::optional(region_.limit().count() - end) : std::nullopt;
}

std::optional<std::vector<Block*>> RebindingBinding::in_the_way_at(std::uint64_t offset, Bytes bytes) const {
  std::vector<Block*> blocks;
  for (const std::uint64_t piece : region_.pieces_in(offset, bytes)) {
    Block* block = block_at(piece);
    if (!can_leave(block)) return std::nullopt;
    blocks.push_back(block);
  }
  return blocks;
}

bool RebindingBinding::can_clear(const pager::PlannedPlace& place) const {
  const auto offset = offset_of(place);
  return offset && in_the_way_at(*offset, place.bytes);
}

std::optional<std::vector<Block*>> RebindingBinding::in_the_way(const pager::Wanted& wanted, std::uint64_t now) {
  // If a block that cannot leave is in the way, this one goes elsewhere, as an unplanned block does.
  if (const auto at = wanted.at ? offset_of(pager::PlannedPlace{*wanted.at, wanted.bytes}) : std::nullopt) {
    if (auto blocks = in_the_way_at(*at, wanted.bytes)) {
      next_place_ = *at;
      return blocks;
    }
  }
  const std::uint64_t end = (region_.limit() - std::min(planned_, region_.limit())).count();
  if (wanted.is_slab) {
    auto blocks = in_the_way_of_slab(wanted.bytes, end);
    return blocks ? blocks : in_the_way_of_slab(wanted.bytes, region_.limit().count());
  }
  if (planned_ > Bytes(0) && wanted.keep_whole == Bytes(0)) {
    if (const auto gap = region_.find_gap_within(0, end, wanted.bytes)) {
      next_place_ = *gap;
      return std::vector<Block*>();
    }
  }
  if (const auto gap = region_.find_gap(wanted.bytes)) {
    next_place_ = *gap;
    if (wanted.keep_whole == Bytes(0)) return std::vector<Block*>();
    region_.take(*gap, wanted.bytes);
    const bool leaves_enough = region_.has_gap(wanted.keep_whole);
    region_.give_back(*gap);
    if (leaves_enough) return std::vector<Block*>();
  }
  const Fit fit = wanted.keep_whole > Bytes(0) ? Fit::kBesideFixed : Fit::kCheapest;
  const auto run = region_.cheapest_run(wanted.bytes, fit, cost(now));
  if (!run) return std::nullopt;
  next_place_ = run->offset;
  std::vector<Block*> blocks;
  for (const std::uint64_t offset : run->to_remove) blocks.push_back(block_at(offset));
  return blocks;
}

/// Takes a place at the low end if possible, even if blocks must leave for it while there are gaps above: a slab stays,
/// and between blocks it would split the arena for good; in planned places, above `end`, it would be in their way.
std::optional<std::vector<Block*>> RebindingBinding::in_the_way_of_slab(Bytes bytes, std::uint64_t end) {
  for (next_place_ = 0; next_place_ + bytes.count() <= end; next_place_ += bytes.count())
    if (auto blocks = in_the_way_at(next_place_, bytes)) return blocks;
  return std::nullopt;
}

Bytes RebindingBinding::largest_run(std::uint64_t now) const { return region_.largest_run(cost(now)); }

pager::Binding::Gathering RebindingBinding::plan_gathering(std::span<Block* const> movable) {
  using Kind = arena::Region::Piece;
  const auto kind = [&](std::uint64_t offset) {
    Block* block = block_at(offset);
    if (block == nullptr) return Kind::kFixed;
    if (std::binary_search(movable.begin(), movable.end(), block)) return Kind::kMovable;
    return can_leave(block) ? Kind::kRemovable : Kind::kFixed;
  };
  Gathering gathering;
  gathering.plan = region_.compaction(kind);
  gathering.largest_run = gathering.plan.largest_run;
  for (const std::uint64_t offset : gathering.plan.to_remove) gathering.in_the_way.push_back(block_at(offset));
  return gathering;
}

void RebindingBinding::gather(const Gathering& gathering) {
  for (const arena::Region::Slide& slide : gathering.plan.slides)
    open(slide.to, slide.to + block_at(slide.from)->charged.count());
  for (const arena::Region::Slide& one : gathering.plan.slides) slide(*block_at(one.from), one);
}

void RebindingBinding::slide(Block& block, const arena::Region::Slide& slide) {
  const bool was_protected = poison_ && block.is_clean();
  if (was_protected) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
  std::memmove(base_ + slide.to, base_ + slide.from, block.charged.count());
  space_.set_owner(block.data, nullptr);
  block.data = base_ + slide.to;
  space_.set_owner(block.data, &block);
  if (was_protected) protect(block.data, block.charged, PROT_READ);
  holders_.set_data(block, block.data);
  region_.slide(slide);
}

bool RebindingBinding::move_to(Block& block, const pager::PlannedPlace& place) {
  const auto to = offset_of(place);
  const auto from = static_cast<std::uint64_t>(block.data - base_);
  if (!to || *to == from) return true;
  const auto in_the_way = region_.pieces_in(*to, place.bytes);
  if (!std::ranges::all_of(in_the_way, [&](std::uint64_t piece) { return piece == from; })) return false;
  open(*to, *to + place.bytes.count());
  slide(block, {from, *to});
  return true;
}

/// Opens only part of the arena: accessible bytes count against the process's limit of data (`ulimit -d`), used or not.
void RebindingBinding::open(std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t step = begin / kOpenStep.count(); step * kOpenStep.count() < end; ++step) {
    if (is_open_[step]) continue;
    protect(base_ + step * kOpenStep.count(), kOpenStep, PROT_READ | PROT_WRITE);
    is_open_[step] = true;
  }
}

std::byte* RebindingBinding::take_place(Bytes size) {
  open(next_place_, next_place_ + size.count());
  region_.take(next_place_, size);
  return base_ + next_place_;
}

void RebindingBinding::give_back(std::byte* at) { region_.give_back(static_cast<std::uint64_t>(at - base_)); }

std::byte* RebindingBinding::acquire(Bytes charged, Bytes) { return take_place(charged); }

std::byte* RebindingBinding::acquire_slab_chunk(Bytes size, Bytes) {
  std::byte* chunk = take_place(size);
  slabs_ += size;
  keep_low();
  return chunk;
}

void RebindingBinding::keep_low() {
  const std::uint64_t limit = region_.limit().count();
  const std::uint64_t least = std::min(kLeastReserve.count(), limit / 16);
  const std::uint64_t reserve = std::clamp(limit / kReserveShare, least, kMostReserve.count());
  region_.keep_low(slabs_.count() + reserve);
}

void RebindingBinding::release(Block& block) noexcept {
  if (block.data != nullptr) {
    if (block.is_clean() && poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    if (poison_) std::memset(block.data, kPoison, block.charged.count());
    give_back(block.data);
  }
  if (block.holder != nullptr) holders_.forget(block);
}

pager::Relocation RebindingBinding::begin_unbind(Block& block) {
  holders_.set_data(block, nullptr);
  if (poison_) {
    protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    if (!block.copying) std::memset(block.data, kPoison, block.charged.count());
  }
  space_.set_owner(block.data, nullptr);
  give_back(block.data);
  block.data = nullptr;
  return {.way = pager::Relocation::Way::kOut};
}

void RebindingBinding::leave_place_to(Block& old, Block& block) {
  holders_.set_data(block, nullptr);
  space_.set_owner(block.data, nullptr);
  old.data = std::exchange(block.data, nullptr);
}

std::vector<Piece> RebindingBinding::stage(Block& block, Bytes) { return {{take_place(block.charged), block.charged}}; }

pager::Relocation RebindingBinding::begin_bind(Block& block, std::vector<Piece> pieces, Access access) {
  block.data = pieces.front().at;
  // The fuzzer finds writes that no op announced: they fault, and are counted.
  if (poison_ && access == Access::kRead) protect(block.data, block.charged, PROT_READ);
  space_.set_owner(block.data, &block);
  holders_.set_data(block, block.data);
  return {.way = pager::Relocation::Way::kIn};
}

void RebindingBinding::discard(std::span<const Piece> pieces) noexcept {
  for (const Piece& piece : pieces) give_back(piece.at);
}

void RebindingBinding::make_writable(Block& block) {
  if (poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
}

}  // namespace tensorpager::memory
