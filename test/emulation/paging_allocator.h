// The pager as torch's CUDA allocator: all device memory that torch takes is a block of it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "no_pools_allocator.h"
#include "pager.h"

namespace mini_pager {

class PagingAllocator final : public NoPoolsAllocator {
 public:
  /// Takes the place of the allocator in use. What that has allocated stays its own.
  static void install(std::size_t budget);
  /// Null before `install`.
  static PagingAllocator* get() { return installed_; }
  /// Null if the bytes are not a pager's.
  static Block* find_block(const at::DataPtr& data);

  Pager& pager() { return pager_; }

  at::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* at) override;
  using CUDAAllocator::recordStream;
  void recordStream(const at::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void cacheInfo(c10::DeviceIndex, std::size_t* largest) override { *largest = pager_.budget(); }
  void* getBaseAllocation(void* at, std::size_t* bytes) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetPeakStats(c10::DeviceIndex) override { pager_.reset_peak(); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override;
  std::string name() override { return "mini pager"; }

 private:
  PagingAllocator(std::size_t budget, CUDAAllocator& before);

  static PagingAllocator* installed_;

  Pager pager_;
  CUDAAllocator& before_;
  std::mutex mutex_;                  // guards raw_
  std::map<void*, at::DataPtr> raw_;  // without a storage, so they are never paged out
};

}  // namespace mini_pager
