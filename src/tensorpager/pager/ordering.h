// The order of what a device computes with blocks, as ops and torch's allocator say it. On a host there is none to
// keep, and nothing but what says so may be called.
#pragma once

#include <atomic>
#include <span>

#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/device_order.h"

namespace tensorpager::pager {

class Ordering {
 public:
  /// It must outlive this.
  explicit Ordering(Core& core) : core_(core) {}

  /// Measures ops on the device; null on a host.
  device::OpClock* op_clock() { return order().clock(); }
  /// The queue in which this thread computes on a device; kNoQueue on a host.
  device::QueueSet queue_here() const;

  /// Work that the calling thread submits to its queue from now on uses these blocks, which it has pinned.
  void order_uses(std::span<Block* const> blocks);
  /// The same with the lock held. Returns false, having done nothing, if only `order_uses` can do it.
  bool order_uses_locked(std::span<Block* const> blocks);
  /// Work in another queue uses the block, already or from now on until it dies.
  void note_use(Block& block, device::Queue queue);
  /// What is submitted to the queue from now on comes behind all that the others were given.
  void order_queue(device::Queue waiter, device::QueueSet others);

  /// Around work of this thread for which the program has not ordered its queues. It comes behind all work on the
  /// blocks and all that the others were given by then; and what uses the blocks afterwards in any queue, and what the
  /// others are given, comes behind it. Does nothing on a host.
  void begin_out_of_order(std::span<Block* const> blocks, device::QueueSet others);
  void end_out_of_order(std::span<Block* const> blocks, device::QueueSet others) noexcept;

 private:
  DeviceOrder& order() { return core_.places.device(); }
  const DeviceOrder& order() const { return core_.places.device(); }
  void order_uses_in(device::Queue queue, std::span<Block* const> blocks);
  bool must_stop_raising() const;
  void stop_raising();

  Core& core_;
  std::atomic<bool> raises_{true};  // raw access to absent blocks
};

}  // namespace tensorpager::pager
