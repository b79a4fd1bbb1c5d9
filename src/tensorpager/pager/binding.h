// How memory is put under a storage and taken away: the part of paging that differs between bindings. Under the stable
// binding an address stays and pages are moved (PageMover); under a placed one blocks share an arena and may come back
// at other addresses (PlacedBinding). All calls are made with the pager's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensorpager/arena/page_pool.h"
#include "tensorpager/arena/placement.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/relocation.h"

namespace tensorpager::pager {

class PageMover;
class PlacedBinding;

/// What memory is filled with that nobody may read any more, by a binding that poisons: NaN as a float, -1 as an index.
constexpr int kPoison = 0xFF;

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

  /// Makes the bytes read-only for everybody, so that they can be copied; `make_writable` undoes it.
  virtual void begin_page_out(Block& block) = 0;
  /// Returns the relocation that moves the pages away and makes the address inaccessible; an empty one if the place is
  /// free already.
  virtual Relocation begin_unbind(Block& block) = 0;

  /// Returns populated pages to read a block's bytes into, in the block's order: at the place, if the binding has
  /// places, else of its size. Pass them to `begin_bind` or `discard`.
  virtual std::vector<arena::Piece> stage(Block& block, const arena::Place& place, base::Bytes pool_allowance) = 0;
  /// Returns the relocation that puts the staged pages in place, each at once. With kRead they are read-only, so that
  /// the first write is detected.
  virtual Relocation begin_bind(Block& block, std::vector<arena::Piece> pieces, Access access) = 0;
  /// The relocation that gives the absent block the memory of `fresh`, which is resident, as large, and has none
  /// afterwards: neither an address nor a place.
  virtual Relocation begin_take_over(Block& block, Block& fresh) = 0;
  /// The staged pages go to the pool, if there is one, or to the machine.
  virtual void discard(Block& block, std::span<const arena::Piece> pieces) noexcept = 0;
  /// The block stops being clean, or its page-out is cancelled.
  virtual void make_writable(Block& block) = 0;

  /// Overwrites memory that is given back (the fuzzer), so that a stale access shows.
  virtual void poison(bool on) = 0;
  virtual std::uint64_t system_calls() const = 0;  // made so far to map, move, protect or populate

  /// This, as what it is: one of the two is not null.
  virtual PlacedBinding* placed() = 0;
  virtual PageMover* page_mover() = 0;
};

}  // namespace tensorpager::pager
