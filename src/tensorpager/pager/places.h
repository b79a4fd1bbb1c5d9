// Which block is where in an arena that blocks share: arena::Placement, whose pieces are blocks. A placed binding has
// one, takes places and gives them back; the pager asks it.
//
// A block cannot be evicted while it is pinned, or absent: a page-in of it is in flight, or it is being moved.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tensorpager/arena/placement.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

using arena::NoRoom;
using arena::Place;
using arena::Wanted;

/// A block's place in a plan. Offsets are the plan's, counted from the arena's high end.
struct PlannedPlace {
  std::uint64_t offset;
  base::Bytes bytes;
};

class Places {
 public:
  /// The place is free once these blocks, at least one, are paged out.
  struct ToEvict {
    Place place;
    std::vector<Block*> blocks;
  };
  using Found = std::variant<Place, ToEvict, NoRoom>;
  struct Move {
    Block* block;
    Place to;
  };
  /// Gathers blocks at one end of each run between those that stay.
  struct Gathering {
    std::vector<Block*> to_evict;  // before the first move
    std::vector<Move> moves;       // in this order
    base::Bytes largest_run;       // afterwards, if all that can be evicted was
  };

  /// The arena is at most `most` bytes, whatever its limit.
  Places(base::Bytes granule, base::Bytes most) : most_(most), placement_(granule) {}

  /// Sets the size of the arena. Returns the blocks that reach beyond it, which must be paged out.
  std::vector<Block*> set_limit(base::Bytes limit);
  /// See arena::Placement.
  void expect_slabs(base::Bytes bytes) { placement_.expect_slabs(bytes); }
  /// Keeps so much of the arena for planned blocks; unplanned blocks go elsewhere if they can.
  void keep_for_plans(base::Bytes space) { placement_.keep_for_plans(space); }

  /// `now` is the op index.
  Found find(const Wanted& wanted, std::uint64_t now) const;
  /// Where a planned place lies in the arena; nullopt if it does not.
  std::optional<Place> find(const PlannedPlace& place) const { return placement_.planned(place.offset, place.bytes); }
  /// The blocks in a planned place; nullopt if one of them cannot be evicted, or the place is not in the arena.
  std::optional<std::vector<Block*>> to_clear(const PlannedPlace& place) const;
  bool can_clear(const PlannedPlace& place) const;
  bool has_gap(base::Bytes bytes) const { return placement_.has_gap(bytes); }
  /// The largest place that evicting blocks could make.
  base::Bytes largest_run() const { return placement_.largest_run(evictability(0)); }
  /// `movable` is sorted.
  Gathering plan_gathering(std::span<Block* const> movable) const;

  static bool has(const Block& block) { return block.place != kNowhere; }
  static Place place_of(const Block& block) { return {block.place, block.charged}; }
  /// Whether nothing but the block itself is in the place.
  bool can_move(const Block& block, const Place& to) const { return placement_.can_move(block.place, to); }

  void take(const Place& place, Block& block);
  void take_for_slab(const Place& place) { placement_.take_for_slab(place); }
  void give_back(Block& block);
  void move(Block& block, const Place& to);
  /// Gives the block's place to `old`, which is not evicted.
  void leave_to(Block& old, Block& block);
  /// Gives it to `heir`, which has none.
  void hand_over(Block& block, Block& heir);

 private:
  arena::Placement::Evictability evictability(std::uint64_t now) const;
  /// Null: a slab chunk, or a place that was left to a block's record.
  Block* block_at(std::uint64_t offset) const;
  std::vector<Block*> blocks_at(std::span<const std::uint64_t> offsets) const;

  base::Bytes most_;
  arena::Placement placement_;
  std::unordered_map<std::uint64_t, Block*> blocks_;
};

}  // namespace tensorpager::pager
