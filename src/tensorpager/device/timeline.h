// How far the queues of a device are. Work is ordered behind a fence when it is submitted; the host waits only for what
// it does itself. One thread at a time asks.
#pragma once

#include "tensorpager/device/fence.h"

namespace tensorpager::device {

class Timeline {
 public:
  virtual ~Timeline() = default;

  /// All that is submitted by now.
  virtual Fence submitted() const = 0;
  /// Whether `host_wait` would not block.
  virtual bool is_done(const Fence& fence) = 0;
  /// Blocks until all that the fence covers is done, well or not.
  virtual void host_wait(const Fence& fence) noexcept = 0;
};

}  // namespace tensorpager::device
