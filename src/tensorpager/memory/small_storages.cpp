#include "tensorpager/memory/small_storages.h"

#include <algorithm>
#include <new>

namespace tensorpager::memory {
namespace {

constexpr std::uint64_t kGranule = 512;  // bytes

}  // namespace

std::byte* SmallStorages::allocate(base::Bytes size, device::Queue queue) {
  const auto granules = (size.count() + kGranule - 1) / kGranule;
  const auto size_class = static_cast<std::uint8_t>(std::ranges::lower_bound(kSizes, granules) - kSizes.begin());
  const std::uint64_t step = kSizes[size_class] * kGranule;
  std::vector<std::byte*>& free = free_[device::index_of(queue)][size_class];
  std::unique_lock lock(mutex_);
  if (free.empty()) {
    lock.unlock();  // it takes the pager's lock
    std::byte* const chunk = take_chunk_();
    lock.lock();
    for (std::uint64_t end = kChunk.count() / step * step; end > 0; end -= step) free.push_back(chunk + end - step);
  }
  std::byte* const at = free.back();
  free.pop_back();
  pieces_.emplace(at, Piece{size_class, queue, device::kNoQueue});
  return at;
}

bool SmallStorages::free(const void* at) {
  std::unique_lock lock(mutex_);
  const auto found = pieces_.find(at);
  if (found == pieces_.end()) return false;
  const Piece piece = found->second;
  pieces_.erase(found);
  if (piece.others != device::kNoQueue) {
    lock.unlock();
    order_(piece.queue, piece.others);
    lock.lock();
  }
  free_[device::index_of(piece.queue)][piece.size_class].push_back(
      const_cast<std::byte*>(static_cast<const std::byte*>(at)));
  return true;
}

bool SmallStorages::note_use(const void* at, device::Queue queue) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(at);
  if (found == pieces_.end()) return false;
  if (found->second.queue != queue) found->second.others |= device::set_of(queue);
  return true;
}

void SmallStorages::reset_lock_in_child() { ::new (&mutex_) std::mutex; }

}  // namespace tensorpager::memory
