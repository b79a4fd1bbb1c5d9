#include "tensorpager/fake_cuda/pinned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace tensorpager::fake_cuda {

void* PinnedMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  const std::lock_guard lock(mutex_);
  ranges_[static_cast<const char*>(at)] = {bytes, true};
  return at;
}

bool PinnedMemory::free(void* address) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(static_cast<const char*>(address));
    if (found == ranges_.end() || !found->second.mapped_here) return false;
    bytes = found->second.bytes;
    ranges_.erase(found);
  }
  munmap(address, bytes);
  return true;
}

bool PinnedMemory::add(const void* address, std::size_t bytes) {
  const char* from = static_cast<const char*>(address);
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.upper_bound(from);
  if (after != ranges_.end() && after->first < from + bytes) return false;
  if (after != ranges_.begin() && std::prev(after)->first + std::prev(after)->second.bytes > from) return false;
  ranges_[from] = {bytes, false};
  return true;
}

bool PinnedMemory::remove(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(static_cast<const char*>(address));
  if (found == ranges_.end() || found->second.mapped_here) return false;
  ranges_.erase(found);
  return true;
}

bool PinnedMemory::starts_at(const void* address) const {
  const std::lock_guard lock(mutex_);
  return ranges_.count(static_cast<const char*>(address)) > 0;
}

std::size_t PinnedMemory::bytes_at(const void* address) const {
  const char* at = static_cast<const char*>(address);
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return 0;
  const auto& [start, range] = *std::prev(after);
  return at < start + range.bytes ? static_cast<std::size_t>(start + range.bytes - at) : 0;
}

}  // namespace tensorpager::fake_cuda
