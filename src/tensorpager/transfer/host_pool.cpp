#include "tensorpager/transfer/host_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {

using base::Bytes;
using base::IoError;

HostPool::~HostPool() {
  for (const Slab& slab : slabs_)
    if (slab.kind == kPinned)
      streams_.free_pinned(slab.memory);
    else
      ::munmap(slab.memory, slab.bytes.count());
}

Slot HostPool::reserve(Bytes bytes) {
  const Bytes rounded = base::round_up(bytes, kGranule);
  for (const Kind kind : {kPinned, kPageable}) {
    if (const auto slot = take(rounded, kind)) return *slot;
    if (add_slab(rounded, kind)) return *take(rounded, kind);
  }
  throw IoError("reserve", "the host's memory for paged-out tensors", bytes, ENOMEM,
                "give the device a larger budget, so that less is paged out");
}

std::optional<Slot> HostPool::take(Bytes rounded, Kind kind) {
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].kind != kind) continue;
    if (const auto offset = slabs_[i].space.take(rounded))
      return Slot{.offset = *offset, .bytes = rounded, .file = static_cast<std::uint32_t>(i)};
  }
  return std::nullopt;
}

bool HostPool::add_slab(Bytes rounded, Kind kind) {
  const Bytes used = kind == kPinned ? taken_[kPinned] : taken_[kPinned] + taken_[kPageable];
  if (used + rounded > most_[kind]) return false;
  const Bytes bytes = std::min(std::max(kSlab, base::round_up(rounded, base::kHugePage)),
                               base::round_down(most_[kind] - used, kGranule));
  std::byte* const memory = allocate(bytes, kind);
  if (memory == nullptr) return false;
  slabs_.push_back({kind, memory, bytes, base::Extents(bytes, kGranule), {}});
  taken_[kind] += bytes;
  return true;
}

/// Returns null if pinned memory is refused, and asks for none any more.
std::byte* HostPool::allocate(Bytes bytes, Kind kind) {
  if (kind == kPinned) try {
      return streams_.allocate_pinned(bytes);
    } catch (const IoError&) {
      most_[kPinned] = taken_[kPinned];
      return nullptr;
    }
  void* const memory = ::mmap(nullptr, bytes.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw IoError("mmap", "memory for paged-out tensors", bytes, errno);
  ::madvise(memory, bytes.count(), MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

void HostPool::release(const Slot& slot) noexcept { slabs_[slot.file].space.give_back(slot.offset, slot.bytes); }

Bytes HostPool::reserved() const {
  Bytes reserved;
  for (const Slab& slab : slabs_) reserved += slab.space.taken();
  return reserved;
}

}  // namespace tensorpager::transfer
