// Streams: each is non-blocking, so the default stream orders nothing but itself, as torch makes its streams.
#include <utility>

#include "tensorpager/fake_cuda/runtime_api.h"

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  return call("cudaStreamCreateWithPriority", [&](World&) {
    *stream = reinterpret_cast<cudaStream_t>(new Stream(current_device(), priority));
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&](World&) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return cudaErrorInvalidResourceHandle;
    delete reinterpret_cast<Stream*>(stream);  // what is queued finishes without it
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  *priority = is_default ? 0 : reinterpret_cast<Stream*>(stream)->priority();
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&](World& world) { return wait_for_queue(world, world.queue_of(stream)); });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&](World& world) {
    const int queue = world.queue_of(stream);
    if (!world.queues().is_done(world.queues().record(queue))) return cudaErrorNotReady;
    return state_of_device(world, device_of_queue(queue));
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", [&](World& world) {
    world.queues().enqueue(world.queue_of(stream), "a host function", {}, [=] { function(data); });
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                                       unsigned) {
  return call("cudaStreamAddCallback", [&](World& world) {
    world.queues().enqueue(world.queue_of(stream), "a callback", {}, [=] { callback(stream, cudaSuccess, data); });
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                                          unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                                          const cudaGraphEdgeData**, std::size_t*) {
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}
