// What the files *_api.cpp share: each is a part of the CUDA runtime API over the World. Only they see CUDA's headers.
// To add a call: its definition in the file of its topic, with its body in `call`.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <string>

#include "tensorpager/fake_cuda/streams.h"
#include "tensorpager/fake_cuda/world.h"

#define TENSORPAGER_CUDA_API extern "C" __attribute__((visibility("default")))

namespace tensorpager::fake_cuda {

/// Keeps an error as this thread's last one and returns it. `text` is what cudaGetErrorString says of it on this thread
/// until the next error with a text; empty: CUDA's own text.
cudaError_t fail(cudaError_t error, const std::string& text = {});
/// The error that a call is likely to have on a card, for failures that were asked for.
cudaError_t likely_error(const char* call);

/// Runs the body of an API call, which takes the World and returns an error.
template <typename Body>
cudaError_t call(const char* name, Body&& body) noexcept {
  if (World::is_forked_child()) return fail(cudaErrorInitializationError);
  World& world = World::get();
  if (world.failures().must_fail(name)) return fail(likely_error(name));
  try {
    const cudaError_t error = body(world);
    return error == cudaSuccess ? error : fail(error);
  } catch (const std::exception& error) {
    return fail(cudaErrorUnknown, error.what());
  }
}

/// Returned by a synchronising call: the error of the queue's device.
inline cudaError_t state_of_device(World& world, int device) {
  return world.queues().failure(device).empty() ? cudaSuccess : cudaErrorAssert;
}
inline int device_of_queue(int queue) { return queue < 0 ? current_device() : queue / World::kQueuesPerDevice; }

inline cudaError_t wait_for_queue(World& world, int queue) {
  world.queues().wait_for_queue(queue);
  return state_of_device(world, device_of_queue(queue));
}

}  // namespace tensorpager::fake_cuda
