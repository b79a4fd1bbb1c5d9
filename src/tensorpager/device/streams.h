// What a device's runtime does, for one device: memory, streams, events and copies. CUDA's is in cuda/; tests have one
// that keeps a log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/device/fence.h"

namespace tensorpager::device {

/// A point in a stream that others can wait for. May be recorded again while somebody waits: a wait is for what had
/// been recorded when it was submitted.
using Event = std::uintptr_t;

/// Throws IoError if the runtime refuses.
class Streams {
 public:
  virtual ~Streams() = default;

  /// The compute queue of the stream on which the calling thread computes now; a stream that was not seen before gets
  /// one. Any thread may ask, at any time.
  virtual Queue current() = 0;
  /// Whether it was given more than one compute queue.
  virtual bool has_several_queues() const = 0;

  virtual Event make_event() = 0;
  virtual void record(Event event, Queue queue) = 0;
  /// What is submitted to the queue from now on begins after the event.
  virtual void wait(Queue queue, Event event) = 0;
  virtual void block_host(Event event) = 0;
  /// Blocks until the device has done all that it was given, in whatever stream.
  virtual void finish() = 0;
  /// An event that knows when the device passed it.
  virtual Event make_timing_event() = 0;
  /// Whether the device has passed what was recorded last.
  virtual bool is_done(Event event) = 0;
  /// Of two that are done.
  virtual double seconds_between(Event begin, Event end) = 0;

  /// Device memory on both sides, not overlapping; or pinned host memory on one.
  virtual void copy(Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) = 0;

  /// Host memory on both sides, not overlapping. Done on the host, when the queue gets to it.
  virtual void copy_on_host(Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) = 0;

  /// Aligned to 512 bytes.
  virtual std::byte* allocate(base::Bytes bytes) = 0;
  virtual void free(std::byte* memory) noexcept = 0;
  /// Host memory that copies reach directly.
  virtual std::byte* allocate_pinned(base::Bytes bytes) = 0;
  virtual void free_pinned(std::byte* memory) noexcept = 0;
};

}  // namespace tensorpager::device
