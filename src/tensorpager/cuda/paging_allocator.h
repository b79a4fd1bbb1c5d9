// torch's CUDA allocator while a session pages a device: blocks from the pager, small storages from chunks of it. What
// the allocator before has given out stays its own, and so do other devices.
//
// Not supported, with an error that says so: CUDA graphs, private pools and sharing between processes, as each of them
// keeps addresses that must not change.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <vector>

#include "tensorpager/cuda/blas_workspaces.h"
#include "tensorpager/cuda/cuda_streams.h"
#include "tensorpager/memory/small_storages.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::cuda {

class PagingAllocator final : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  /// All must live for ever. `thread_observer` is called on each allocation, with no lock held.
  PagingAllocator(pager::Pager& pager, CudaStreams& streams, memory::SmallStorages& small, void (*thread_observer)());

  /// Makes this torch's CUDA allocator; `uninstall` brings back the one before. Memory given out is still served.
  /// `smallest_block`: smaller allocations are no blocks; kMinPagedBytes at most.
  void install(base::Bytes smallest_block);
  void uninstall();
  /// An op of this thread is about to multiply matrices. Throws torch's errors.
  static void before_products();

  // c10::Allocator
  c10::DataPtr allocate(std::size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t size) const override;

  // c10::DeviceAllocator
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t pool) override;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override;
  using CUDAAllocator::recordStream;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override;

  // CUDAAllocator
  std::string name() override { return "tensorpager"; }
  void init(int devices) override;
  void* raw_alloc(std::size_t size) override;
  void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override;
  void raw_delete(void* at) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* at, std::size_t* size) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t pool, bool include_traces) override;
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* at) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  bool isHistoryEnabled() override { return false; }
  void recordHistory(bool enabled, c10::cuda::CUDACachingAllocator::CreateContextFn context, std::size_t entries,
                     c10::cuda::CUDACachingAllocator::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override;
  void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override;
#endif
  void attachAllocatorTraceTracker(c10::cuda::CUDACachingAllocator::AllocatorTraceTracker tracker) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                          cudaStream_t stream, bool peers) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                                      c10::MempoolId_t pool) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;

 private:
  bool is_ours(c10::DeviceIndex device) const { return device == streams_.device(); }
  bool free(void* at);
  [[noreturn]] static void fail(const char* shortage);

  pager::Pager& pager_;
  CudaStreams& streams_;
  memory::SmallStorages& small_;
  void (*const thread_observer_)();
  base::Bytes smallest_block_ = base::kMinPagedBytes;
  CUDAAllocator* previous_ = nullptr;
  BlasWorkspaces workspaces_{pager_};
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers_;
};

}  // namespace tensorpager::cuda
