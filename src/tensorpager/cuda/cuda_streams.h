// CUDA's runtime behind device::Streams, for one device. Knows CUDA's runtime and c10 only: a card and the emulated one
// are the same here.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <mutex>

#include "tensorpager/device/streams.h"

namespace tensorpager::cuda {

class CudaStreams final : public device::Streams {
 public:
  /// Initialises CUDA. Throws IoError if it cannot.
  explicit CudaStreams(int device);

  device::Queue current() override;
  bool has_several_queues() const override { return computing_.load(std::memory_order_relaxed) > 1; }
  /// The queue of a stream, which may be another one than the current.
  device::Queue queue_of(cudaStream_t stream);
  /// A queue that comes behind what a stream of any device has by now: the stream's own, if there is one.
  device::Queue queue_behind(c10::cuda::CUDAStream stream);

  device::Event make_event() override;
  void record(device::Event event, device::Queue queue) override;
  void wait(device::Queue queue, device::Event event) override;
  void block_host(device::Event event) override;
  void finish() override;
  device::Event make_timing_event() override;
  bool is_done(device::Event event) override;
  double seconds_between(device::Event begin, device::Event end) override;
  void copy(device::Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) override;
  void copy_on_host(device::Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) override;

  std::byte* allocate(base::Bytes bytes) override;
  void free(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(base::Bytes bytes) override;
  void free_pinned(std::byte* memory) noexcept override;

  int device() const { return device_; }

 private:
  c10::cuda::CUDAGuard on_device() const;
  cudaStream_t stream_of(device::Queue queue) const;

  const int device_;
  std::array<cudaStream_t, 2> transfers_{};  // of page-outs and of page-ins; nobody else uses them
  std::array<std::atomic<cudaStream_t>, device::kComputeQueues> compute_{};
  std::atomic<std::size_t> computing_{0};  // of compute_, those that are in use
  std::mutex mutex_;                       // of additions to them
};

}  // namespace tensorpager::cuda
