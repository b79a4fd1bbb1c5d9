#include "tensorpager/transfer/pinned_pool.h"

#include <algorithm>
#include <cerrno>

#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {

using base::Bytes;

PinnedPool::~PinnedPool() {
  for (const Slab& slab : slabs_) streams_.free_pinned(slab.memory);
}

Slot PinnedPool::reserve(Bytes bytes) {
  const Bytes rounded = base::round_up(bytes, kGranule);
  const auto take_from = [&](std::size_t index) -> std::optional<Slot> {
    const auto offset = slabs_[index].space.take(rounded);
    if (!offset) return std::nullopt;
    return Slot{.offset = *offset, .bytes = rounded, .file = static_cast<std::uint32_t>(index)};
  };
  for (std::size_t i = 0; i < slabs_.size(); ++i)
    if (const auto slot = take_from(i)) return *slot;
  if (pinned_ + rounded > limit_)
    throw base::IoError("reserve", "the pinned memory of paged-out tensors", bytes, ENOMEM,
                        "allow more pinned memory, with --pinned SIZE, or give the device a larger budget");
  const Bytes slab = std::min(std::max(kSlab, base::round_up(rounded, base::kHugePage)), limit_ - pinned_);
  slabs_.push_back({streams_.allocate_pinned(slab), base::Extents(base::round_down(slab, kGranule), kGranule), {}});
  pinned_ += slab;
  return *take_from(slabs_.size() - 1);
}

void PinnedPool::release(const Slot& slot) noexcept { slabs_[slot.file].space.give_back(slot.offset, slot.bytes); }

Bytes PinnedPool::reserved() const {
  Bytes reserved;
  for (const Slab& slab : slabs_) reserved += slab.space.taken();
  return reserved;
}

}  // namespace tensorpager::transfer
