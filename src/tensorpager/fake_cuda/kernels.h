// What the torch side of the emulation sees of the fake card: where a kernel finds a tensor's bytes, and how it is
// queued. The CUDA runtime API over the same card is in the *_api.cpp files; torch's own host code calls that.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tensorpager/fake_cuda/speeds.h"

namespace tensorpager::fake_cuda {

/// Device or pinned bytes that a kernel touches.
struct Range {
  const void* at;
  std::size_t bytes;
  bool written;
};

/// Returns where kernels find the bytes at a device address, which the host itself cannot read. Other addresses are
/// returned unchanged.
void* kernel_view(const void* address);

/// Queues `kernel` behind all that is on a stream (a cudaStream_t; null is the current device's default stream). It
/// runs late, on a thread of the schedule in use and with no lock held; `name` must live for ever. An exception from
/// it becomes the device's sticky error, which the next synchronising call returns. Dropped while this thread skips
/// kernels (see `tensorpager_fake_cuda_skip`). `work`: for the card's clock; its bytes are those that are touched.
/// Throws std::logic_error inside a kernel, and in a child that was forked after CUDA was used.
void launch(void* stream, const char* name, std::vector<Range> touched, std::function<void()> kernel, Work work = {});

}  // namespace tensorpager::fake_cuda

extern "C" {
/// Whether what this thread queues from now on (kernels, copies, memsets) is dropped. Returns the value before.
bool tensorpager_fake_cuda_skip(bool on);
/// One JSON object: "card", "schedule", "kernels", "stream_waits", "host_waits", "races", "first_race",
/// "launches_refused", "largest_queue", "used_bytes". Valid until this thread's next call.
const char* tensorpager_fake_cuda_report();
/// Makes the `nth` call (from 1) of a runtime function from now on fail with the error that it is likely to have.
void tensorpager_fake_cuda_fail(const char* call, unsigned long long nth);
/// Waits for all that is queued and forgets a sticky error, which a real device would keep: for tests.
void tensorpager_fake_cuda_clear_error();
}
