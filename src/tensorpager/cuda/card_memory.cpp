#include "tensorpager/cuda/card_memory.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "tensorpager/base/errors.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/transfer/stream_queues.h"

namespace tensorpager::cuda {
namespace {

using base::Bytes;

int initialised_device() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return 0;
}

}  // namespace

CardMemory::CardMemory(Bytes budget, void (*thread_observer)())
    : streams_(initialised_device()),
      timeline_(streams_),
      arena_(new memory::DeviceArena(streams_, timeline_, base::round_down(budget, memory::DeviceArena::kGranule))),
      space_(arena_->begin(), arena_->size(), memory::DeviceArena::kGranule),
      binding_(space_, storages_, std::unique_ptr<memory::ArenaMemory>(arena_), memory::PlaceReuse::kDuringCopy),
      pager_(space_, binding_, std::make_unique<pager::LruPolicy>()),
      small_([this] { return pager_.storages().acquire_slab_chunk(memory::SmallStorages::kChunk); },
             [this](device::Queue waiter, device::QueueSet others) { pager_.ordering().order_queue(waiter, others); }),
      allocator_(pager_, streams_, small_, thread_observer) {
  binding_.places().expect_slabs(BlasWorkspaces::usual());
}

std::unique_ptr<transfer::Queues> CardMemory::make_queues(const base::Config& config, Bytes budget) {
  if (base::round_down(budget, memory::DeviceArena::kGranule) > arena_->size())
    throw base::InvalidArgument(
        "the budget of the device cannot grow within a process, as its memory is one piece of " +
        base::format_bytes(arena_->size()) + "; start another process");
  return transfer::make_stream_queues(
      streams_, timeline_,
      {.pinned = std::min(config.pinned, base::physical_memory()), .all = base::physical_memory()});
}

}  // namespace tensorpager::cuda

std::uint64_t tensorpager_cuda_size() {
  std::size_t free = 0, all = 0;
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(tensorpager::cuda::initialised_device()));
  const cudaError_t error = cudaMemGetInfo(&free, &all);
  if (error != cudaSuccess)
    throw tensorpager::base::IoError(std::string("cudaMemGetInfo: ") + cudaGetErrorString(error),
                                     "the size of the device", tensorpager::base::Bytes(0), EIO);
  return all;
}

tensorpager::memory::PagedMemory* tensorpager_cuda_make_memory(std::uint64_t budget, void (*thread_observer)()) {
  return new tensorpager::cuda::CardMemory(tensorpager::base::Bytes(budget), thread_observer);
}
