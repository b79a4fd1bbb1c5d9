// Decides where pieces are placed in an arena of exactly the budget, and which must be evicted for them. It knows
// numbers only: whether a piece can be evicted, and how long it was not used, its caller says. All that shares an arena
// uses it: the rebinding binding, and the simulator's, so that what is simulated is what runs.
//
//   0   slabs  reserve        unplanned          what plans place   limit
//   |####|####|.......|......|======|....|==|====|=======|==========|
//
// Slab chunks never move and gather at the low end, where room is kept for those that are expected: one that lies
// elsewhere splits the arena for good, and is in the way of what plans place. Plans count their offsets from the high
// end. A piece that no plan knows is placed below what is kept for plans, else in the smallest gap, else where evicting
// neighbours costs least.
//
// A query changes nothing: `find` returns a place, and `take` takes it. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "tensorpager/arena/region.h"
#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

/// Bytes [offset, offset + bytes) of the arena.
struct Place {
  std::uint64_t offset = 0;
  base::Bytes bytes = {};

  std::uint64_t end() const { return offset + bytes.count(); }
  bool overlaps(const Place& other) const { return offset < other.end() && other.offset < end(); }
  bool operator==(const Place&) const = default;
};

/// A place that is wanted. `keep_whole`: bytes that the op under way is likely to create besides, which should find a
/// place after this.
struct Wanted {
  base::Bytes bytes = {};
  base::Bytes keep_whole = {};
  bool is_slab = false;
  std::optional<std::uint64_t> at = {};  // its planned offset, if a plan knows it
};

/// The place is free once these pieces, named by their offsets, are evicted. There is at least one.
struct ToEvict {
  Place place;
  std::vector<std::uint64_t> pieces;
};
/// There is no place, whatever is evicted. `largest_run`: the largest that evicting could make.
struct NoRoom {
  base::Bytes largest_run;
};
using Found = std::variant<Place, ToEvict, NoRoom>;

class Placement {
 public:
  /// A piece that can be evicted.
  struct Evictable {
    bool is_clean = false;         // evicting it needs no copy
    std::uint64_t unused_ops = 0;  // since its last use
  };
  /// Says of the piece at an offset how it can be evicted; nullopt if it cannot.
  using Evictability = std::function<std::optional<Evictable>(std::uint64_t offset)>;

  /// `granule` is a power of two; sizes and offsets are multiples of it, but for slab chunks.
  explicit Placement(base::Bytes granule) : granule_(granule), region_(granule) {}

  /// Sets the space to [0, limit), rounded down. What is taken beyond stays so until it is given back.
  void set_limit(base::Bytes limit);
  base::Bytes limit() const { return region_.limit(); }
  std::vector<std::uint64_t> beyond_limit() const { return region_.beyond_limit(); }
  /// So many bytes of slabs are likely to be taken in all.
  void expect_slabs(base::Bytes bytes);
  /// Keeps so much of the high end for what plans place; other pieces go elsewhere if they can.
  void keep_for_plans(base::Bytes space) { planned_ = space; }

  /// Finds a free place, or one to evict pieces from. If the planned place cannot be cleared, the piece is placed as an
  /// unplanned one.
  Found find(const Wanted& wanted, const Evictability& evictability) const;
  /// The place of so many bytes at a planned offset; nullopt if it does not lie in the arena.
  std::optional<Place> planned(std::uint64_t offset, base::Bytes bytes) const;
  /// The pieces to evict so that the place is free; nullopt if one of them cannot be evicted.
  std::optional<std::vector<std::uint64_t>> to_clear(const Place& place, const Evictability& evictability) const;
  bool can_clear(const Place& place, const Evictability& evictability) const;
  bool has_gap(base::Bytes bytes) const { return region_.has_gap(bytes); }
  /// The largest place that evicting pieces could make.
  base::Bytes largest_run(const Evictability& evictability) const;
  /// What it takes to gather the pieces for which `is_movable` holds at one end of each run between fixed ones.
  Region::Compaction plan_gathering(const std::function<bool(std::uint64_t offset)>& is_movable,
                                    const Evictability& evictability) const;

  /// Takes a place, which must be free.
  void take(const Place& place) { region_.take(place.offset, place.bytes); }
  /// The same for a slab chunk, which is never given back.
  void take_for_slab(const Place& place);
  void give_back(std::uint64_t offset) { region_.give_back(offset); }
  /// Whether nothing but the piece at `from` is in the place.
  bool can_move(std::uint64_t from, const Place& to) const;
  /// The caller moves the bytes.
  void move(std::uint64_t from, const Place& to) { region_.slide({from, to.offset}); }

 private:
  Region::Cost cost(const Evictability& evictability) const;
  std::optional<std::uint64_t> find_gap(const Wanted& wanted) const;
  Found find_for_slab(base::Bytes bytes, const Evictability& evictability) const;
  /// Where the part that is kept for plans begins.
  std::uint64_t planned_begin() const { return (limit() - std::min(planned_, limit())).count(); }
  void keep_reserve();

  base::Bytes granule_;
  Region region_;
  base::Bytes slabs_;  // at the low end as far as they can
  base::Bytes expected_slabs_;
  base::Bytes planned_;  // at the high end
};

}  // namespace tensorpager::arena
