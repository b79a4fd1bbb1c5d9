#include "tensorpager/arena/placement.h"

#include <algorithm>
#include <utility>

#include "tensorpager/arena/slabs.h"

namespace tensorpager::arena {

using base::Bytes;

namespace {

/// The part of the arena beyond the slabs that they may grow into: 2 %, and room for some chunks where that is little.
constexpr std::uint64_t kReserveShare = 50;
constexpr Bytes kLeastReserve{std::uint64_t{1} << 20};
constexpr Bytes kMostReserve{std::uint64_t{256} << 20};  // a large budget does not need more
constexpr std::uint64_t kMostExpectedShare = 4;          // of the arena, for slabs that may never come
/// A dirty piece must be written to the tier before it can go, and both kinds must be read back.
constexpr double kDirtyCost = 2, kCleanCost = 1;

Found free_or_to_evict(const Place& place, std::vector<std::uint64_t> pieces) {
  if (pieces.empty()) return place;
  return ToEvict{place, std::move(pieces)};
}

}  // namespace

void Placement::set_limit(Bytes limit) {
  region_.set_limit(Bytes(limit.count() / granule_.count() * granule_.count()));
  keep_reserve();
}

void Placement::keep_reserve() {
  const std::uint64_t limit = region_.limit().count();
  const std::uint64_t least = std::min(kLeastReserve.count(), limit / 16);
  const std::uint64_t reserve = std::clamp(limit / kReserveShare, least, kMostReserve.count());
  const std::uint64_t expected = std::min(expected_slabs_.count(), limit / kMostExpectedShare);
  region_.keep_low(std::max(slabs_.count(), expected) + reserve, expected);
}

void Placement::expect_slabs(Bytes bytes) {
  expected_slabs_ = bytes;
  keep_reserve();
}

/// The bytes that eviction moves, over how long the piece was not used: its likely cost per op.
Region::Cost Placement::cost(const Evictability& evictability) const {
  return [&evictability](std::uint64_t offset, Bytes size) -> std::optional<double> {
    const auto evictable = evictability(offset);
    if (!evictable) return std::nullopt;
    const double moved = static_cast<double>(size.count()) * (evictable->is_clean ? kCleanCost : kDirtyCost);
    return moved / static_cast<double>(evictable->unused_ops + 1);
  };
}

std::optional<Place> Placement::planned(std::uint64_t offset, Bytes bytes) const {
  const std::uint64_t end = offset + bytes.count();
  return end <= limit().count() ? std::optional(Place{limit().count() - end, bytes}) : std::nullopt;
}

std::optional<std::vector<std::uint64_t>> Placement::to_clear(const Place& place,
                                                              const Evictability& evictability) const {
  std::vector<std::uint64_t> pieces = region_.pieces_in(place.offset, place.bytes);
  for (const std::uint64_t piece : pieces)
    if (!evictability(piece)) return std::nullopt;
  return pieces;
}

bool Placement::can_clear(const Place& place, const Evictability& evictability) const {
  return region_.all_pieces_in(place.offset, place.bytes,
                               [&](std::uint64_t piece) { return evictability(piece).has_value(); });
}

Found Placement::find(const Wanted& wanted, const Evictability& evictability) const {
  if (const auto place = wanted.at ? planned(*wanted.at, wanted.bytes) : std::nullopt)
    if (auto pieces = to_clear(*place, evictability)) return free_or_to_evict(*place, std::move(*pieces));
  if (wanted.is_slab) return find_for_slab(wanted.bytes, evictability);
  if (const auto gap = find_gap(wanted)) return Place{*gap, wanted.bytes};
  const Fit fit = wanted.keep_whole > Bytes(0) ? Fit::kBesideFixed : Fit::kCheapest;
  auto run = region_.cheapest_run(wanted.bytes, fit, cost(evictability));
  if (!run) return NoRoom{largest_run(evictability)};
  return free_or_to_evict({run->offset, wanted.bytes}, std::move(run->to_remove));
}

/// A gap that leaves another one of `keep_whole` bytes.
std::optional<std::uint64_t> Placement::find_gap(const Wanted& wanted) const {
  if (planned_ > Bytes(0) && wanted.keep_whole == Bytes(0))
    if (const auto gap = region_.find_gap_within(0, planned_begin(), wanted.bytes)) return gap;
  const auto gap = region_.find_gap(wanted.bytes);
  if (!gap || wanted.keep_whole == Bytes(0)) return gap;
  return region_.has_gap_beside(*gap, wanted.bytes, wanted.keep_whole) ? gap : std::nullopt;
}

/// Finds the lowest place that can be cleared, even if pieces must leave for it while there are gaps above: a slab
/// stays, and between pieces it would split the arena for good; in planned places it would be in their way.
Found Placement::find_for_slab(Bytes bytes, const Evictability& evictability) const {
  for (Place place{0, bytes}; place.end() <= limit().count(); place.offset += std::min(bytes, Slabs::kChunk).count())
    if (auto pieces = to_clear(place, evictability)) return free_or_to_evict(place, std::move(*pieces));
  return NoRoom{largest_run(evictability)};
}

Bytes Placement::largest_run(const Evictability& evictability) const { return region_.largest_run(cost(evictability)); }

Region::Compaction Placement::plan_gathering(const std::function<bool(std::uint64_t)>& is_movable,
                                             const Evictability& evictability) const {
  using Kind = Region::Piece;
  return region_.compaction([&](std::uint64_t offset) {
    if (is_movable(offset)) return Kind::kMovable;
    return evictability(offset) ? Kind::kRemovable : Kind::kFixed;
  });
}

void Placement::take_for_slab(const Place& place) {
  take(place);
  slabs_ += place.bytes;
  keep_reserve();
}

bool Placement::can_move(std::uint64_t from, const Place& to) const {
  return region_.all_pieces_in(to.offset, to.bytes, [&](std::uint64_t piece) { return piece == from; });
}

}  // namespace tensorpager::arena
