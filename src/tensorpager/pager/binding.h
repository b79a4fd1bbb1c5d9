// How a block's bytes are put under its storage and taken away: the part of paging that differs between the stable
// binding (the address stays, page tables change) and the rebinding one (the address changes). All calls are made with
// the pager's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensorpager/arena/page_pool.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

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
  /// Takes the pages away, into the pool; the address becomes inaccessible.
  virtual void unbind(Block& block) = 0;
  /// Whether an unbind and a later bind would stay within the machine's limits.
  virtual bool may_unbind() = 0;

  /// Populated pages to read a block's bytes into, in the block's order. Give them to `bind`, or back to `discard`.
  virtual std::vector<arena::Piece> stage(Block& block, base::Bytes pool_allowance) = 0;
  /// Puts the staged pages in place at once; with kRead they are read-only, so that the first write is noticed.
  virtual void bind(Block& block, std::span<const arena::Piece> pieces, Access access) = 0;
  virtual void discard(std::span<const arena::Piece> pieces) noexcept = 0;
  /// The block stops being clean.
  virtual void make_writable(Block& block) = 0;

  /// Overwrites what `unbind` and `release` give to the pool (the fuzzer), so that a stale access shows.
  virtual void poison(bool on) = 0;

  /// Gives pooled pages back to the machine until the pool is within the allowance.
  virtual void trim_pool(base::Bytes allowance) = 0;
  virtual base::Bytes pooled() const = 0;          // bytes in the pool now
  virtual std::uint64_t system_calls() const = 0;  // made so far to map, move, protect or populate
};

}  // namespace tensorpager::pager
