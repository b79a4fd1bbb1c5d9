#include "tensorpager/cuda/device_watch.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "tensorpager/intercept/device_storages.h"

namespace {

using c10::CachingDeviceAllocator::TraceEntry;

/// Called with the allocator's lock held; must not call torch.
void tell(tensorpager::intercept::DeviceStorages& storages, const TraceEntry& entry) {
  const void* const at = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(entry.addr_));
  if (entry.action_ == TraceEntry::ALLOC)
    storages.born(at, tensorpager::base::Bytes(entry.size_));
  else if (entry.action_ == TraceEntry::FREE_REQUESTED)
    storages.died(at);
}

}  // namespace

void tensorpager_cuda_watch(tensorpager::intercept::DeviceStorages* storages) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
      [storages](const TraceEntry& entry) { tell(*storages, entry); });
}

void tensorpager_cuda_memory(unsigned long long figures[4]) {
  using c10::CachingAllocator::StatType;
  auto* const allocator = c10::cuda::CUDACachingAllocator::get();
  if (allocator == nullptr || !allocator->initialized()) return;
  const auto stats = allocator->getDeviceStats(0);
  const auto all = static_cast<std::size_t>(StatType::AGGREGATE);
  const auto bytes = [](std::int64_t n) { return static_cast<unsigned long long>(n); };
  figures[0] = bytes(stats.allocated_bytes[all].current);
  figures[1] = bytes(stats.allocated_bytes[all].peak);
  figures[2] = bytes(stats.reserved_bytes[all].current);
  figures[3] = bytes(stats.reserved_bytes[all].peak);
}
