// Slots in host memory for what a device pages out. It is pinned, so that a device's copies reach it directly, as far
// as the limit allows and the runtime gives any, and pageable beyond that. It is taken in slabs, because each
// allocation of pinned memory may wait for the device, and given back with the pool.
//
// A slot may be released and reserved again while copies to and from it are in flight: the next copy comes behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/extents.h"
#include "tensorpager/device/range_fences.h"
#include "tensorpager/device/streams.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

class HostPool {
 public:
  /// Slabs are multiples of this, and no smaller but for the last that fits into a limit.
  static constexpr base::Bytes kSlab{std::uint64_t{64} << 20};
  /// The granule of slots.
  static constexpr base::Bytes kGranule{512};

  /// The most bytes of slabs that are pinned, and of all. `streams` must outlive this.
  HostPool(device::Streams& streams, base::Bytes pinned, base::Bytes all) : streams_(streams), most_{all, pinned} {}
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  /// Prefers pinned memory. Throws IoError if the pool is full, or the machine refuses.
  Slot reserve(base::Bytes bytes);
  void release(const Slot& slot) noexcept;

  bool is_pinned(const Slot& slot) const { return slabs_[slot.file].kind == kPinned; }
  std::byte* memory_of(const Slot& slot) const { return slabs_[slot.file].memory + slot.offset; }
  /// What the next copy to or from the slot comes behind.
  device::Fence fence_of(const Slot& slot) const {
    return slabs_[slot.file].fences.over(slot.offset, slot.offset + slot.bytes.count());
  }
  /// A copy that came behind `fence_of` was submitted.
  void copied(const Slot& slot, const device::Ticket& copy) {
    slabs_[slot.file].fences.set(slot.offset, slot.offset + slot.bytes.count(), copy);
  }

  base::Bytes reserved() const;                           // bytes in slots now
  base::Bytes pinned() const { return taken_[kPinned]; }  // bytes of slabs
  base::Bytes pageable() const { return taken_[kPageable]; }

 private:
  enum Kind : std::uint8_t { kPageable, kPinned };

  struct Slab {
    Kind kind;
    std::byte* memory;
    base::Bytes bytes;
    base::Extents space;
    device::RangeFences fences;
  };

  std::optional<Slot> take(base::Bytes rounded, Kind kind);
  /// Adds a slab that has room for `rounded` bytes. Returns false if the limit leaves none, or the runtime refuses.
  bool add_slab(base::Bytes rounded, Kind kind);
  std::byte* allocate(base::Bytes bytes, Kind kind);

  device::Streams& streams_;
  base::Bytes most_[2];  // by kind; of pageable slabs, both together
  base::Bytes taken_[2];
  std::vector<Slab> slabs_;  // Slot::file is an index
};

}  // namespace tensorpager::transfer
