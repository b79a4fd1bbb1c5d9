// How memory is put under a storage and taken away: the part of paging that differs between the stable binding (the
// address stays, page tables change) and the rebinding one (the address changes). All calls but `relocate` are made
// with the pager's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/arena/page_pool.h"
#include "tensorpager/arena/region.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/relocation.h"

namespace tensorpager::pager {

/// A block's place in a plan. Offsets are the plan's: a binding lays them out in its arena as it likes.
struct PlannedPlace {
  std::uint64_t offset;
  base::Bytes bytes;
};

/// A place that is wanted in the arena. `keep_whole`: bytes that the op under way is likely to create besides, which
/// should find a place after this.
struct Wanted {
  base::Bytes bytes;
  base::Bytes keep_whole;
  bool is_slab = false;
  std::optional<std::uint64_t> at = {};  // its planned offset, if a plan knows it
};

class Binding {
 public:
  virtual ~Binding() = default;

  /// Bytes charged for a block of `size` bytes.
  virtual base::Bytes charge_for(base::Bytes size) const = 0;

  /// Returns resident, writable memory for a new block, and keeps the pool within `pool_allowance`. Throws IoError if
  /// the machine has none; nothing has changed then.
  virtual std::byte* acquire(base::Bytes charged, base::Bytes pool_allowance) = 0;
  /// The same for a slab chunk, which is aligned to its size and never released.
  virtual std::byte* acquire_slab_chunk(base::Bytes size, base::Bytes pool_allowance) = 0;
  /// Frees the memory of a block that died, resident or absent.
  virtual void release(Block& block) noexcept = 0;

  /// Makes the bytes read-only for everybody, so that they can be copied; `cancel_page_out` undoes it.
  virtual void begin_page_out(Block& block) = 0;
  virtual void cancel_page_out(Block& block) noexcept = 0;
  /// Returns the relocation that moves the pages into the pool and makes the address inaccessible.
  virtual Relocation begin_unbind(Block& block) = 0;
  /// Whether an unbind and a later bind would stay within the machine's limits.
  virtual bool may_unbind() = 0;

  /// Returns populated pages to read a block's bytes into, in the block's order. Pass them to `begin_bind` or
  /// `discard`.
  virtual std::vector<arena::Piece> stage(Block& block, base::Bytes pool_allowance) = 0;
  /// Returns the relocation that puts the staged pages in place, each at once. With kRead they are read-only, so that
  /// the first write is detected.
  virtual Relocation begin_bind(Block& block, std::vector<arena::Piece> pieces, Access access) = 0;
  virtual void discard(std::span<const arena::Piece> pieces) noexcept = 0;
  /// The block stops being clean.
  virtual void make_writable(Block& block) = 0;

  /// Makes the system calls of an unbind or a bind. Throws IoError if the machine refuses; then it must be cancelled.
  virtual void relocate(const Relocation& relocation) { static_cast<void>(relocation); }
  /// Whether any thread may relocate, without the lock and while others do.
  virtual bool relocates_beside() const { return false; }
  virtual void end_relocation(const Relocation& relocation) noexcept { static_cast<void>(relocation); }
  /// Restores the state before it began, except that staged pages are gone.
  virtual void cancel_relocation(const Relocation& relocation) noexcept { static_cast<void>(relocation); }

  /// Overwrites memory that goes to the pool (the fuzzer), so that a stale access shows.
  virtual void poison(bool on) = 0;

  /// Gives pooled pages back to the machine until the pool is within the allowance.
  virtual void trim_pool(base::Bytes allowance) = 0;
  virtual base::Bytes pooled() const = 0;          // bytes in the pool now
  virtual std::uint64_t system_calls() const = 0;  // made so far to map, move, protect or populate
  /// Bytes of fresh pages, which the machine zeroes, that the binding itself has asked for so far.
  virtual base::Bytes populated() const { return base::Bytes(0); }

  // --- for bindings whose blocks share one arena, where room is not enough and a place is needed; the others use the
  // defaults
  virtual bool is_placed() const { return false; }
  /// Whether a place may be passed on while it is still copied from, as its next user is ordered behind the copy (see
  /// PassedOnPlaces). Such a copy is not cancelled: its place is in use until it is done.
  virtual bool passes_places_on() const { return false; }
  /// Offset in the arena of these bytes, which are a block's or staged for a page-in.
  virtual std::uint64_t offset_of(const std::byte* data) const {
    static_cast<void>(data);
    return 0;
  }
  /// Offset in the arena of a planned place; nullopt if it does not lie there.
  virtual std::optional<std::uint64_t> offset_of(const PlannedPlace& place) const { return place.offset; }
  /// Gives the block's place to `old`; the block has none: it is absent while it is still copied from there.
  virtual void leave_place_to(Block& old, Block& block) { static_cast<void>(old), static_cast<void>(block); }
  /// Sets the size of the arena. Returns the blocks that reach beyond it, which must be paged out.
  virtual std::vector<Block*> set_limit(base::Bytes budget) {
    static_cast<void>(budget);
    return {};
  }
  /// Returns the blocks to page out first; none if there is a place, which the next `acquire` or `stage` takes; nullopt
  /// if pinned blocks leave no place. `now` is the op index.
  virtual std::optional<std::vector<Block*>> in_the_way(const Wanted& wanted, std::uint64_t now) {
    static_cast<void>(wanted), static_cast<void>(now);
    return std::vector<Block*>();
  }
  /// Reserves this much of the arena for planned blocks; unplanned blocks go elsewhere if they can.
  virtual void keep_for_plans(base::Bytes space) { static_cast<void>(space); }
  /// Whether all blocks in a planned place, if there are any, can leave it.
  virtual bool can_clear(const PlannedPlace& place) const {
    static_cast<void>(place);
    return true;
  }
  /// Moves a block, whose address nobody has taken, to its planned place. Returns false if the range is occupied.
  virtual bool move_to(Block& block, const PlannedPlace& place) {
    static_cast<void>(block), static_cast<void>(place);
    return true;
  }
  /// Whether there is a gap of so many bytes now.
  virtual bool has_gap(base::Bytes bytes) const {
    static_cast<void>(bytes);
    return true;
  }
  /// The cost and gain of gathering the movable blocks; `gather` does it once the blocks in the way are paged out.
  struct Gathering {
    std::vector<Block*> in_the_way;
    base::Bytes largest_run;
    arena::Region::Compaction plan;
  };
  virtual Gathering plan_gathering(std::span<Block* const> movable) {
    static_cast<void>(movable);
    return {};
  }
  virtual void gather(const Gathering& gathering) { static_cast<void>(gathering); }
  /// The largest place that evicting blocks could make.
  virtual base::Bytes largest_run(std::uint64_t now) const {
    static_cast<void>(now);
    return base::kUnlimited;
  }
  /// From now on notifies the holder (a storage) where the block is. Returns false if the block is not the holder's.
  virtual bool claim(Block& block, void* holder) {
    static_cast<void>(block), static_cast<void>(holder);
    return true;
  }
  /// Undoes a claim.
  virtual void unclaim(Block& block) { static_cast<void>(block); }
  /// Whether the holder still has the block, so that it may be evicted.
  virtual bool is_claimed(const Block& block) const {
    static_cast<void>(block);
    return true;
  }
};

}  // namespace tensorpager::pager
