// Copies and fills. As on a card, pageable sources are staged when the copy is queued, and a copy to pageable memory
// returns when it is done.
#include <cstring>
#include <memory>

#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

enum class Place { kDevice, kPinned, kPageable };

Place place_of(World& world, const void* address) {
  if (world.device_of(address) >= 0) return Place::kDevice;
  return world.pinned().bytes_at(address) > 0 ? Place::kPinned : Place::kPageable;
}

/// Whether the bytes lie in one block, if they are on a device.
bool is_valid(World& world, const void* address, std::size_t bytes) {
  const int device = world.device_of(address);
  return device < 0 || world.memory(device).bytes_at(address) >= bytes;
}

Work work_of(Place from, Place to, std::size_t bytes) {
  if (from == Place::kDevice && to == Place::kDevice) return {.bytes = 2 * bytes};
  return {.kind = from == Place::kDevice ? Work::Kind::kPageOut : Work::Kind::kPageIn, .bytes = bytes};
}

cudaError_t copy(World& world, void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0 || skips_kernels()) return cudaSuccess;
  if (!is_valid(world, to, bytes) || !is_valid(world, from, bytes)) return cudaErrorInvalidValue;
  const int queue = world.queue_of(stream);
  void* const target = world.view(to);
  if (place_of(world, from) == Place::kPageable && place_of(world, to) != Place::kPageable) {
    std::shared_ptr<char[]> staged(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
    world.queues().enqueue(
        queue, "a copy from pageable memory", {{to, bytes, true}}, [=] { std::memcpy(target, staged.get(), bytes); },
        work_of(Place::kPageable, place_of(world, to), bytes));
    return cudaSuccess;
  }
  const void* const source = world.view(from);
  world.queues().enqueue(
      queue, "a copy", {{from, bytes, false}, {to, bytes, true}}, [=] { std::memmove(target, source, bytes); },
      work_of(place_of(world, from), place_of(world, to), bytes));
  return place_of(world, to) == Place::kPageable ? wait_for_queue(world, queue) : cudaSuccess;
}

cudaError_t fill(World& world, void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0 || skips_kernels()) return cudaSuccess;
  if (!is_valid(world, at, bytes)) return cudaErrorInvalidValue;
  void* const target = world.view(at);
  world.queues().enqueue(world.queue_of(stream), "a memset", {{at, bytes, true}},
                         [=] { std::memset(target, value, bytes); }, {.bytes = bytes});
  return cudaSuccess;
}

cudaError_t finish(World& world, cudaError_t queued) {
  return queued == cudaSuccess && !skips_kernels() ? wait_for_queue(world, world.queue_of(nullptr)) : queued;
}

}  // namespace
}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                                 cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&](World& world) { return copy(world, to, from, bytes, stream); });
}

TENSORPAGER_CUDA_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return call("cudaMemcpy", [&](World& world) { return finish(world, copy(world, to, from, bytes, nullptr)); });
}

TENSORPAGER_CUDA_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                                     cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", [&](World& world) { return copy(world, to, from, bytes, stream); });
}

TENSORPAGER_CUDA_API cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](World& world) { return fill(world, at, value, bytes, stream); });
}

TENSORPAGER_CUDA_API cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return call("cudaMemset", [&](World& world) { return finish(world, fill(world, at, value, bytes, nullptr)); });
}
