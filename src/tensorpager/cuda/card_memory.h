// The memory of a CUDA device that a session pages.
#pragma once

#include "tensorpager/cuda/cuda_streams.h"
#include "tensorpager/cuda/paging_allocator.h"
#include "tensorpager/device/stream_timeline.h"
#include "tensorpager/memory/arena_memory.h"
#include "tensorpager/memory/paged_memory.h"
#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/memory/small_storages.h"
#include "tensorpager/memory/torch_storages.h"

namespace tensorpager::cuda {

class CardMemory final : public memory::PagedMemory {
 public:
  /// Takes the budget from the device at once. Throws IoError if the device has less.
  CardMemory(base::Bytes budget, void (*thread_observer)());

  pager::Pager& pager() override { return pager_; }
  arena::AddressSpace& space() override { return space_; }
  bool rebinds() const override { return true; }
  std::unique_ptr<transfer::Queues> make_queues(const base::Config& config, base::Bytes budget) override;
  void install(const base::Config& config) override { allocator_.install(config.trace_smallest); }
  void uninstall() override { allocator_.uninstall(); }
  void (*products_observer())() override { return &PagingAllocator::before_products; }
  void lock_all() override { small_.lock(); }
  void unlock_all() override { small_.unlock(); }
  void reset_locks_in_child() override { small_.reset_lock_in_child(); }

 private:
  CudaStreams streams_;
  device::StreamTimeline timeline_;
  memory::DeviceArena* arena_;  // the binding's
  arena::AddressSpace space_;
  memory::TorchStorages storages_;
  memory::RebindingBinding binding_;
  pager::Pager pager_;
  memory::SmallStorages small_;
  PagingAllocator allocator_;
};

}  // namespace tensorpager::cuda

extern "C" {
/// Bytes of device 0's memory, used or not. Initialises CUDA. Throws IoError.
std::uint64_t tensorpager_cuda_size();
/// Makes the memory of device 0, once in a process; `budget` in bytes. Throws as its constructor.
tensorpager::memory::PagedMemory* tensorpager_cuda_make_memory(std::uint64_t budget, void (*thread_observer)());
}
