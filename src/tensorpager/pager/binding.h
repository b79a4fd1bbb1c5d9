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
#include "tensorpager/arena/placement.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/relocation.h"

namespace tensorpager::pager {

class PlacedBinding;

class Binding {
 public:
  virtual ~Binding() = default;

  /// Bytes charged for a block of `size` bytes.
  virtual base::Bytes charge_for(base::Bytes size) const = 0;

  /// Returns resident, writable memory for a new block, and keeps the pool within `pool_allowance`. Throws IoError if
  /// the machine has none; nothing has changed then. The place is one that was found free; only a placed binding has
  /// places, another looks at its size at most.
  virtual std::byte* acquire(Block& block, const arena::Place& place, base::Bytes pool_allowance) = 0;
  /// The same for a slab chunk, which is aligned to its size and never released.
  virtual std::byte* acquire_slab_chunk(const arena::Place& place, base::Bytes pool_allowance) = 0;
  /// Frees the memory of a block that died, resident or absent.
  virtual void release(Block& block) noexcept = 0;

  /// Makes the bytes read-only for everybody, so that they can be copied; `cancel_page_out` undoes it.
  virtual void begin_page_out(Block& block) = 0;
  virtual void cancel_page_out(Block& block) noexcept = 0;
  /// Returns the relocation that moves the pages into the pool and makes the address inaccessible.
  virtual Relocation begin_unbind(Block& block) = 0;
  /// Whether an unbind and a later bind would stay within the machine's limits.
  virtual bool may_unbind() = 0;

  /// Returns populated pages to read a block's bytes into, in the block's order; at the place, if the binding has
  /// places. Pass them to `begin_bind` or `discard`.
  virtual std::vector<arena::Piece> stage(Block& block, const arena::Place& place, base::Bytes pool_allowance) = 0;
  /// Returns the relocation that puts the staged pages in place, each at once. With kRead they are read-only, so that
  /// the first write is detected.
  virtual Relocation begin_bind(Block& block, std::vector<arena::Piece> pieces, Access access) = 0;
  virtual void discard(Block& block, std::span<const arena::Piece> pieces) noexcept = 0;
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

  /// This, if its blocks share one arena; else null.
  virtual PlacedBinding* placed() = 0;
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
