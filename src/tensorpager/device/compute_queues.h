// The queues in which a device computes, as the pager sees them. The program submits work to them without asking, so
// nobody counts its kernels: what was submitted by now is what a fence of now covers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensorpager/device/fence.h"
#include "tensorpager/device/op_clock.h"

namespace tensorpager::device {

/// Some of the compute queues: bit i stands for the i-th.
using QueueSet = std::uint64_t;
inline constexpr QueueSet kNoQueue = 0;
inline constexpr QueueSet kEachQueue = (QueueSet{1} << kComputeQueues) - 1;

constexpr Queue first_of(QueueSet queues) {
  return static_cast<Queue>(index_of(Queue::kCompute) + static_cast<std::size_t>(std::countr_zero(queues)));
}
constexpr QueueSet set_of(Queue compute) { return QueueSet{1} << (index_of(compute) - index_of(Queue::kCompute)); }

class ComputeQueues {
 public:
  virtual ~ComputeQueues() = default;

  /// The queue in which the calling thread computes now. Takes no lock; every other call is made by one thread at a
  /// time.
  virtual Queue current() = 0;
  /// Whether the program computes in more than one. Takes no lock either.
  virtual bool are_several() const = 0;
  /// All that these queues were given by now.
  virtual Fence submitted_to(QueueSet queues) = 0;
  /// What is submitted to the queue from now on begins only when all that the fence covers is done. The host does not
  /// wait.
  virtual void order(Queue waiter, const Fence& fence) = 0;
  /// Blocks until all that the fence covers is done.
  virtual void block_host(const Fence& fence) = 0;
  /// Blocks until the device has done all that it was given, by queues that are not known, too.
  virtual void finish() = 0;
  /// Measures ops; any thread may call it.
  virtual OpClock& clock() = 0;
};

}  // namespace tensorpager::device
