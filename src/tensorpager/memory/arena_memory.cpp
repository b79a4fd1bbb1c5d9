#include "tensorpager/memory/arena_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tensorpager/base/errors.h"
#include "tensorpager/pager/binding.h"

namespace tensorpager::memory {

using base::Bytes;

namespace {

constexpr Bytes kOpenStep{std::uint64_t{32} << 20};

Bytes addresses_to_hold() { return base::round_up(base::physical_memory() + base::physical_memory(), kOpenStep); }

}  // namespace

HostArena::HostArena(arena::AddressSpace& space)
    : range_(addresses_to_hold()), base_(space.take(range_)), is_open_(range_.count() / kOpenStep.count()) {}

/// Opens only part of the arena: accessible bytes count against the process's limit of data (`ulimit -d`), used or not.
std::byte* HostArena::open(const arena::Place& place) {
  for (std::uint64_t step = place.offset / kOpenStep.count(); step * kOpenStep.count() < place.end(); ++step) {
    if (is_open_[step]) continue;
    protect(base_ + step * kOpenStep.count(), kOpenStep, Protection::kWritable);
    is_open_[step] = true;
  }
  return base_ + place.offset;
}

void HostArena::move(std::byte* to, const std::byte* from, Bytes bytes) { std::memmove(to, from, bytes.count()); }

void HostArena::poison(std::byte* at, Bytes bytes) { std::memset(at, pager::kPoison, bytes.count()); }

void HostArena::protect(std::byte* at, Bytes bytes, Protection protection) {
  ++system_calls_;
  const int bits = protection == Protection::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mprotect(at, bytes.count(), bits) != 0) throw base::IoError("mprotect", "the arena", bytes, errno);
}

DeviceArena::DeviceArena(device::Streams& streams, device::StreamTimeline& timeline, Bytes size)
    : streams_(streams), timeline_(timeline), size_(size), base_(streams.allocate(size)) {}

std::byte* DeviceArena::open(const arena::Place& place) {
  return place.end() <= size_.count() ? base_ + place.offset : streams_.allocate(place.bytes);
}

void DeviceArena::close(std::byte* at) noexcept {
  if (!contains(at)) streams_.free(at);
}

/// In pieces no longer than the distance, as a device's copy may not overlap; they follow each other in the queue, in
/// the order in which none overwrites what another has yet to read.
void DeviceArena::move(std::byte* to, const std::byte* from, Bytes bytes) {
  const device::Queue queue = streams_.current();
  const auto distance = static_cast<std::uint64_t>(to > from ? to - from : from - to);
  for (std::uint64_t done = 0; done < bytes.count();) {
    const std::uint64_t piece = std::min(distance, bytes.count() - done);
    const std::uint64_t at = to > from ? bytes.count() - done - piece : done;
    streams_.copy(queue, to + at, from + at, Bytes(piece));
    done += piece;
  }
}

}  // namespace tensorpager::memory
