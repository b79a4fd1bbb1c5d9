#include "tensorpager/cuda/cuda_streams.h"

#include <c10/core/Event.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tensorpager/base/errors.h"

namespace tensorpager::cuda {

using base::Bytes;
using device::Event;
using device::Queue;

namespace {

/// `what` it was done for, with how many bytes.
void check(cudaError_t error, const char* call, const char* what, Bytes bytes = {}) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // or the next check of anybody would find it
  throw base::IoError(std::string(call) + ": " + cudaGetErrorString(error), what, bytes,
                      error == cudaErrorMemoryAllocation ? ENOMEM : EIO);
}

cudaEvent_t event_of(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

}  // namespace

/// While it lives the device is the current one, which the program's may not be: the default stream of each device is
/// null.
c10::cuda::CUDAGuard CudaStreams::on_device() const {
  return c10::cuda::CUDAGuard(static_cast<c10::DeviceIndex>(device_));
}

CudaStreams::CudaStreams(int device) : device_(device) {
  const c10::cuda::CUDAGuard guard = on_device();
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", "the device");
  for (cudaStream_t& stream : transfers_)
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority",
          "a stream of transfers");
}

Queue CudaStreams::current() {
  return queue_of(c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)).stream());
}

Queue CudaStreams::queue_of(cudaStream_t stream) {
  const auto find = [&](std::size_t from, std::size_t to) {
    while (from < to && compute_[from].load(std::memory_order_relaxed) != stream) ++from;
    return from;
  };
  const auto queue = [](std::size_t index) { return static_cast<Queue>(device::index_of(Queue::kCompute) + index); };
  const std::size_t known = computing_.load(std::memory_order_acquire);
  if (const std::size_t found = find(0, known); found < known) [[likely]]
    return queue(found);
  const std::lock_guard lock(mutex_);
  const std::size_t all = computing_.load(std::memory_order_relaxed);
  const std::size_t found = find(known, all);
  if (found == device::kComputeQueues)
    throw base::IoError("use",
                        "more CUDA streams than the " + std::to_string(device::kComputeQueues) +
                            " that a program may use under a budget",
                        Bytes(0), EMFILE);
  if (found == all) {
    compute_[found].store(stream, std::memory_order_relaxed);
    computing_.store(all + 1, std::memory_order_release);
  }
  return queue(found);
}

cudaStream_t CudaStreams::stream_of(Queue queue) const {
  const std::size_t index = device::index_of(queue);
  if (queue < Queue::kCompute) return transfers_[index];
  return compute_[index - device::index_of(Queue::kCompute)].load(std::memory_order_relaxed);
}

/// What another device's stream has by now, the current one waits for.
Queue CudaStreams::queue_behind(c10::cuda::CUDAStream stream) {
  if (stream.device_index() == device_) return queue_of(stream.stream());
  c10::Event reached(c10::kCUDA);
  reached.record(stream);
  reached.block(c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)));
  return current();
}

Event CudaStreams::make_event() {
  const c10::cuda::CUDAGuard guard = on_device();
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", "an event");
  return reinterpret_cast<Event>(event);
}

void CudaStreams::record(Event event, Queue queue) {
  const c10::cuda::CUDAGuard guard = on_device();
  check(cudaEventRecord(event_of(event), stream_of(queue)), "cudaEventRecord", "a stream");
}

void CudaStreams::wait(Queue queue, Event event) {
  const c10::cuda::CUDAGuard guard = on_device();
  check(cudaStreamWaitEvent(stream_of(queue), event_of(event), 0), "cudaStreamWaitEvent", "a stream");
}

void CudaStreams::block_host(Event event) {
  check(cudaEventSynchronize(event_of(event)), "cudaEventSynchronize", "a stream");
}

void CudaStreams::finish() {
  const c10::cuda::CUDAGuard guard = on_device();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", "the device");
}

Event CudaStreams::make_timing_event() {
  const c10::cuda::CUDAGuard guard = on_device();
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate", "an event");
  return reinterpret_cast<Event>(event);
}

bool CudaStreams::is_done(Event event) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  if (error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // it counts as an error to the next check of anybody
    return false;
  }
  check(error, "cudaEventQuery", "a stream");
  return true;
}

double CudaStreams::seconds_between(Event begin, Event end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end)), "cudaEventElapsedTime", "a stream");
  return milliseconds * 1e-3;
}

void CudaStreams::copy(Queue queue, std::byte* to, const std::byte* from, Bytes bytes) {
  const c10::cuda::CUDAGuard guard = on_device();
  check(cudaMemcpyAsync(to, from, bytes.count(), cudaMemcpyDefault, stream_of(queue)), "cudaMemcpyAsync",
        "a tensor's memory", bytes);
}

void CudaStreams::copy_on_host(Queue queue, std::byte* to, const std::byte* from, Bytes bytes) {
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  auto copy = std::make_unique<Copy>(to, from, bytes.count());
  const auto run = [](void* data) {
    const std::unique_ptr<Copy> mine(static_cast<Copy*>(data));
    std::memcpy(mine->to, mine->from, mine->bytes);
  };
  const c10::cuda::CUDAGuard guard = on_device();
  check(cudaLaunchHostFunc(stream_of(queue), run, copy.get()), "cudaLaunchHostFunc", "a tensor's memory", bytes);
  static_cast<void>(copy.release());
}

std::byte* CudaStreams::allocate(Bytes bytes) {
  const c10::cuda::CUDAGuard guard = on_device();
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes.count()), "cudaMalloc", "the device's memory for tensors", bytes);
  return static_cast<std::byte*>(memory);
}

void CudaStreams::free(std::byte* memory) noexcept { static_cast<void>(cudaFree(memory)); }

std::byte* CudaStreams::allocate_pinned(Bytes bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes.count(), cudaHostAllocPortable), "cudaHostAlloc",
        "pinned memory for paged-out tensors", bytes);
  return static_cast<std::byte*>(memory);
}

void CudaStreams::free_pinned(std::byte* memory) noexcept { static_cast<void>(cudaFreeHost(memory)); }

}  // namespace tensorpager::cuda
