// Events: each holds the ticket of its last recording.
#include <mutex>

#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}
  bool is_timed() const { return timed_; }
  int device() const { return device_; }
  void set(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    ticket_ = std::move(ticket);
  }
  Ticket get() const {
    const std::lock_guard lock(mutex_);
    return ticket_;
  }

 private:
  mutable std::mutex mutex_;
  Ticket ticket_;
  const bool timed_;
  const int device_ = current_device();
};

Event& from(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

}  // namespace
}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](World&) {
    *event = reinterpret_cast<cudaEvent_t>(new Event((flags & cudaEventDisableTiming) == 0));
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

TENSORPAGER_CUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&](World&) {
    if (!event) return cudaErrorInvalidResourceHandle;
    delete &from(event);
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&](World& world) {
    if (!event) return cudaErrorInvalidResourceHandle;
    const int queue = world.queue_of(stream);
    if (device_of_queue(queue) != from(event).device()) return cudaErrorInvalidResourceHandle;
    from(event).set(world.queues().record(queue));
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

TENSORPAGER_CUDA_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](World& world) {
    if (!event) return cudaErrorInvalidResourceHandle;
    const Ticket ticket = from(event).get();
    return world.queues().is_done(ticket) ? state_of_device(world, device_of_queue(ticket.queue)) : cudaErrorNotReady;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&](World& world) {
    if (!event) return cudaErrorInvalidResourceHandle;
    const Ticket ticket = from(event).get();
    world.queues().wait(ticket);
    return state_of_device(world, device_of_queue(ticket.queue));
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](World& world) {
    if (!begin || !end || !from(begin).is_timed() || !from(end).is_timed()) return cudaErrorInvalidResourceHandle;
    const Ticket first = from(begin).get();
    const Ticket last = from(end).get();
    if (first.queue < 0 || last.queue < 0) return cudaErrorInvalidResourceHandle;
    if (!world.queues().is_done(first) || !world.queues().is_done(last)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((world.queues().reached_at(last) - world.queues().reached_at(first)) * 1e3);
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent", [&](World& world) {
    if (!event) return cudaErrorInvalidResourceHandle;
    world.queues().block(world.queue_of(stream), from(event).get());
    return cudaSuccess;
  });
}
