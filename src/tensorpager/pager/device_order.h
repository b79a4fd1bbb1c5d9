// Order between what a device computes with a block and what moves the block: work that uses a block comes behind its
// transfers, and whatever moves a block or takes its place comes behind that work. On a host there is no such order to
// keep: what it was called for is done when the call returns.
#pragma once

#include <atomic>

#include "tensorpager/device/compute_queues.h"

namespace tensorpager::pager {

/// A block's part of it. Changed by transfers with the pager's lock held, while no op has the block pinned; by ops that
/// have it pinned, without.
struct DeviceUse {
  std::atomic<device::QueueSet> used_in{device::kNoQueue};       // queues with work on the block
  std::atomic<device::QueueSet> ordered_in{device::kEachQueue};  // queues whose next work comes behind `ready`
  device::Fence ready;  // the last transfer of the bytes, or what used the place before

  /// From now on who uses the block comes behind `fence`, too.
  void come_behind(const device::Fence& fence) {
    ready |= fence;
    ordered_in.store(device::kNoQueue, std::memory_order_release);
  }
  /// The block is in another place from now on, where its users wait for `fence`.
  void begin_behind(const device::Fence& fence) {
    ready = fence;
    used_in.store(device::kNoQueue, std::memory_order_relaxed);
    ordered_in.store(device::kNoQueue, std::memory_order_release);
  }
  void take_from(const DeviceUse& other) {
    ready = other.ready;
    used_in.store(other.used_in.load(std::memory_order_relaxed), std::memory_order_relaxed);
    ordered_in.store(other.ordered_in.load(std::memory_order_relaxed), std::memory_order_release);
  }
};

class DeviceOrder {
 public:
  /// `queues`: null on a host. They must outlive this.
  explicit DeviceOrder(device::ComputeQueues* queues) : queues_(queues) {}

  bool is_on_device() const { return queues_ != nullptr; }
  device::OpClock* clock() const { return is_on_device() ? &queues_->clock() : nullptr; }
  device::Queue current() const { return queues_->current(); }
  bool has_several_queues() const { return queues_->are_several(); }

  /// Work in this queue uses the block, from now on or already. Returns whether it comes behind all that it must; if
  /// not, call `order`. Takes no lock.
  static bool note_use(DeviceUse& use, device::Queue queue) {
    const device::QueueSet bit = device::set_of(queue);
    if ((use.used_in.load(std::memory_order_relaxed) & bit) == 0) use.used_in.fetch_or(bit, std::memory_order_relaxed);
    return (use.ordered_in.load(std::memory_order_acquire) & bit) != 0;
  }
  /// With the lock held: what is submitted to the queue from now on comes behind what the block's users must.
  void order(DeviceUse& use, device::Queue queue) {
    queues_->order(queue, use.ready);
    use.ordered_in.fetch_or(device::set_of(queue), std::memory_order_release);
  }
  void order(device::Queue waiter, device::QueueSet others) { queues_->order(waiter, queues_->submitted_to(others)); }
  /// Both, with the lock held; does nothing on a host.
  void use_here(DeviceUse& use) {
    if (!is_on_device()) return;
    const device::Queue queue = current();
    if (!note_use(use, queue)) order(use, queue);
  }

  /// What must be done before the block is moved, or its place used by others. With the lock held.
  device::Fence uses_of(const DeviceUse& use) const {
    if (!is_on_device()) return use.ready;
    return use.ready | queues_->submitted_to(use.used_in.load(std::memory_order_acquire));
  }
  /// Between sessions the program computes without saying where. Does nothing on a host.
  void finish() {
    if (is_on_device()) queues_->finish();
  }
  /// The host is to use what the fence covers.
  void block_host(const device::Fence& fence) { queues_->block_host(fence); }

  /// For work of the pager itself in the calling thread's queue: it comes behind `fence`, and the result, which covers
  /// it, is asked for afterwards.
  void order_here(const device::Fence& fence) { queues_->order(current(), fence); }
  device::Fence submitted_here() const { return queues_->submitted_to(device::set_of(current())); }

 private:
  device::ComputeQueues* const queues_;
};

}  // namespace tensorpager::pager
