// Slots in pinned host memory, which a device's copies reach directly. The memory is taken from the runtime in slabs,
// because each allocation of pinned memory may wait for the device, and given back with the pool.
//
// A slot may be released and reserved again while copies to and from it are in flight: the next copy comes behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/extents.h"
#include "tensorpager/device/range_fences.h"
#include "tensorpager/device/streams.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

class PinnedPool {
 public:
  /// Slabs are multiples of this, and no smaller but for the last that fits into the limit.
  static constexpr base::Bytes kSlab{std::uint64_t{64} << 20};
  /// The granule of slots.
  static constexpr base::Bytes kGranule{512};

  /// `limit`: the most bytes of pinned memory. `streams` must outlive this.
  PinnedPool(device::Streams& streams, base::Bytes limit) : streams_(streams), limit_(limit) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Throws IoError if the pool is full, or the machine refuses.
  Slot reserve(base::Bytes bytes);
  void release(const Slot& slot) noexcept;

  std::byte* memory_of(const Slot& slot) const { return slabs_[slot.file].memory + slot.offset; }
  /// What the next copy to or from the slot comes behind.
  device::Fence fence_of(const Slot& slot) const {
    return slabs_[slot.file].fences.over(slot.offset, slot.offset + slot.bytes.count());
  }
  /// A copy that came behind `fence_of` was submitted.
  void copied(const Slot& slot, const device::Ticket& copy) {
    slabs_[slot.file].fences.set(slot.offset, slot.offset + slot.bytes.count(), copy);
  }

  base::Bytes reserved() const;                   // bytes in slots now
  base::Bytes pinned() const { return pinned_; }  // bytes of slabs
  base::Bytes limit() const { return limit_; }

 private:
  struct Slab {
    std::byte* memory;
    base::Extents space;
    device::RangeFences fences;
  };

  device::Streams& streams_;
  const base::Bytes limit_;
  base::Bytes pinned_;
  std::vector<Slab> slabs_;  // Slot::file is an index
};

}  // namespace tensorpager::transfer
