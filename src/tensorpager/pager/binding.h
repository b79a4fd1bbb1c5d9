// How a block's bytes are put under its storage and taken away: the part of paging that differs between the stable
// binding (the address stays, page tables change) and the rebinding one (the address changes). All calls but
// `relocate` are made with the pager's lock held.
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

/// Where a plan has a block. Its offsets are the plan's: a binding lays them out in its arena as it likes.
struct PlannedPlace {
  std::uint64_t offset;
  base::Bytes bytes;
};

/// A place that is wanted in the arena. `keep_whole`: what the op under way is likely to create besides, which should
/// find a place after this.
struct Wanted {
  base::Bytes bytes;
  base::Bytes keep_whole;
  bool is_slab = false;
  std::optional<std::uint64_t> at = {};  // where a plan has it, if it does
};

class Binding {
 public:
  virtual ~Binding() = default;

  /// What a block of `size` bytes is charged.
  virtual base::Bytes charge_for(base::Bytes size) const = 0;

  /// Resident, writable memory for a new block, and the pool kept within `pool_allowance`. Throws IoError where the
  /// machine has none; nothing has changed then.
  virtual std::byte* acquire(base::Bytes charged, base::Bytes pool_allowance) = 0;
  /// The same for a slab chunk, which is aligned to its size and never released.
  virtual std::byte* acquire_slab_chunk(base::Bytes size, base::Bytes pool_allowance) = 0;
  /// The memory of a block that died, resident or absent.
  virtual void release(Block& block) noexcept = 0;

  /// Makes the bytes read-only for everybody, so that they can be copied; `cancel` undoes it.
  virtual void begin_page_out(Block& block) = 0;
  virtual void cancel_page_out(Block& block) noexcept = 0;
  /// Takes the pages away, into the pool, and the address becomes inaccessible: when what this says is relocated and
  /// ended.
  virtual Relocation begin_unbind(Block& block) = 0;
  /// Whether an unbind and a later bind would stay within the machine's limits.
  virtual bool may_unbind() = 0;

  /// Populated pages to read a block's bytes into, in the block's order. Give them to `begin_bind`, or back
  /// to `discard`.
  virtual std::vector<arena::Piece> stage(Block& block, base::Bytes pool_allowance) = 0;
  /// Puts the staged pages in place, each at once: when what this says is relocated and ended. With kRead they are
  /// read-only, so that the first write is noticed.
  virtual Relocation begin_bind(Block& block, std::vector<arena::Piece> pieces, Access access) = 0;
  virtual void discard(std::span<const arena::Piece> pieces) noexcept = 0;
  /// The block stops being clean.
  virtual void make_writable(Block& block) = 0;

  /// The machine's part of an unbind or a bind. Throws IoError where the machine refuses; then it is to be cancelled.
  virtual void relocate(const Relocation& relocation) { static_cast<void>(relocation); }
  /// Whether that may be done by any thread, without the lock and while others are done.
  virtual bool relocates_beside() const { return false; }
  virtual void end_relocation(const Relocation& relocation) noexcept { static_cast<void>(relocation); }
  /// All is as it was before it began, but that staged pages are gone.
  virtual void cancel_relocation(const Relocation& relocation) noexcept { static_cast<void>(relocation); }

  /// Overwrites what goes to the pool (the fuzzer), so that a stale access shows.
  virtual void poison(bool on) = 0;

  /// Gives pooled pages back to the machine until the pool is within the allowance.
  virtual void trim_pool(base::Bytes allowance) = 0;
  virtual base::Bytes pooled() const = 0;          // bytes in the pool now
  virtual std::uint64_t system_calls() const = 0;  // made so far to map, move, protect or populate
  /// Fresh pages that were asked of the machine so far, which zeroes them; where the binding asks for them itself.
  virtual base::Bytes populated() const { return base::Bytes(0); }

  // --- bindings whose blocks share one arena, so that room is a matter of places too; the others answer as here
  virtual bool is_placed() const { return false; }
  /// Whether a place may be passed on while it is still copied from, as whoever uses it next is ordered behind the copy
  /// (see PassedOnPlaces). Such a copy is not cancelled: its place is in use until it is done.
  virtual bool passes_places_on() const { return false; }
  /// Where in the arena these bytes are, which a block has or a page-in is staged into.
  virtual std::uint64_t offset_of(const std::byte* data) const {
    static_cast<void>(data);
    return 0;
  }
  /// Where in the arena a planned place lies, if it lies there.
  virtual std::optional<std::uint64_t> offset_of(const PlannedPlace& place) const { return place.offset; }
  /// The block's place becomes `old`'s, and the block has none: it is absent while it is still copied from there.
  virtual void leave_place_to(Block& old, Block& block) { static_cast<void>(old), static_cast<void>(block); }
  /// The arena is this large from now on. The blocks that reach beyond it must be paged out.
  virtual std::vector<Block*> set_limit(base::Bytes budget) {
    static_cast<void>(budget);
    return {};
  }
  /// The blocks to page out first; empty where there is a place, which is the next one that is acquired or staged;
  /// nothing where pinned blocks leave none. `now` is the op index.
  virtual std::optional<std::vector<Block*>> in_the_way(const Wanted& wanted, std::uint64_t now) {
    static_cast<void>(wanted), static_cast<void>(now);
    return std::vector<Block*>();
  }
  /// Plans put their blocks into so much of the arena from now on; what no plan knows goes elsewhere where it can.
  virtual void keep_for_plans(base::Bytes space) { static_cast<void>(space); }
  /// Whether all that is in a planned place, if anything is, can leave it.
  virtual bool can_clear(const PlannedPlace& place) const {
    static_cast<void>(place);
    return true;
  }
  /// Moves a block, of which nobody has taken the address, to where a plan has it. False where something is in the way.
  virtual bool move_to(Block& block, const PlannedPlace& place) {
    static_cast<void>(block), static_cast<void>(place);
    return true;
  }
  /// Whether a gap of so many bytes is there now.
  virtual bool has_gap(base::Bytes bytes) const {
    static_cast<void>(bytes);
    return true;
  }
  /// What gathering the movable blocks would take and give; `slide` does it once the blocks in the way are paged out.
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
  /// The largest place that paging out could make.
  virtual base::Bytes largest_run(std::uint64_t now) const {
    static_cast<void>(now);
    return base::kUnlimited;
  }
  /// The holder (a storage) is told from now on where the block is. False if the block is not the holder's.
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
