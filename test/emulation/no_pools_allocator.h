// The part of torch's interface of CUDA allocators that a pager has no use for: private pools and CUDA graphs, memory
// of other processes, a history, peers. What would need one of them throws; what only asks gets an answer.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace mini_pager {

namespace caching = c10::cuda::CUDACachingAllocator;

class NoPoolsAllocator : public caching::CUDAAllocator {
 public:
  bool initialized() override { return true; }
  void init(int) override {}
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  double getMemoryFraction(c10::DeviceIndex) override { return 1; }
  void setMemoryFraction(double, c10::DeviceIndex) override {}
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t, std::function<bool(cudaStream_t)>) override { refuse(); }
  void createOrIncrefPool(c10::DeviceIndex, c10::MempoolId_t, std::shared_ptr<CUDAAllocator>) override { refuse(); }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex, c10::MempoolId_t) override { refuse(); }
  caching::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex, std::shared_ptr<caching::AllocatorState>) override {
    refuse();
  }
  caching::ShareableHandle shareIpcHandle(void*) override { refuse(); }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { refuse(); }
  // Destructors of pools call these, and may not throw.
  void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override {}
  void releasePool(c10::DeviceIndex, c10::MempoolId_t) override {}

  caching::SnapshotInfo snapshot(c10::MempoolId_t, bool) override { return {}; }
  bool isHistoryEnabled() override { return false; }
  void recordHistory(bool, caching::CreateContextFn, std::size_t, caching::RecordContext, bool,
                     const std::vector<std::string>&) override {}
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver) override {}
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  void attachOomRejectionObserver(caching::OomRejectionObserver) override {}
#endif
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker) override {}
  void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override {}
  cudaError_t memcpyAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream, bool) override {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }

 private:
  [[noreturn]] void refuse() { TORCH_CHECK(false, name(), ": no pools, graphs or memory of other processes"); }
};

}  // namespace mini_pager
