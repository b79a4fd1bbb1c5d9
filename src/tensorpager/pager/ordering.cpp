// The order of what a device computes with blocks, as ops and torch's allocator say it.
#include <bit>
#include <mutex>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

void Pager::order_uses(std::span<Block* const> blocks) {
  DeviceOrder& order = transfers_.order();
  const device::Queue queue = order.current();
  if (must_stop_raising()) [[unlikely]]
    stop_raising();
  bool are_ordered = true;
  for (Block* block : blocks) are_ordered = DeviceOrder::note_use(block->use(), queue) && are_ordered;
  if (are_ordered) [[likely]]
    return;
  const Lock lock(*this);
  order_uses_in(queue, blocks);
}

void Pager::order_uses_in(device::Queue queue, std::span<Block* const> blocks) {
  for (Block* block : blocks)
    if (!DeviceOrder::note_use(block->use(), queue)) transfers_.order().order(block->use(), queue);
}

/// The same when an op begins, with the lock held. Returns false, having done nothing, if raw access must not raise any
/// more, which the other sees to.
bool Pager::order_uses_at_begin(std::span<Block* const> blocks) {
  const device::Queue queue = transfers_.order().current();  // new queues are noticed by this
  if (must_stop_raising()) return false;
  order_uses_in(queue, blocks);
  return true;
}

bool Pager::must_stop_raising() const {
  return transfers_.order().has_several_queues() && raises_.load(std::memory_order_relaxed);
}

/// Where a backward pass changes streams, torch's engine records the uses of gradients outside of ops, by their data
/// pointers, and does not read what these point to.
void Pager::stop_raising() {
  const Lock lock(*this);
  raises_ = false;
  if (Holders* const holders = transfers_.holders()) holders->stop_raising(table_.absent());
}

void Pager::note_use(Block& block, device::Queue queue) {
  const Lock lock(*this);
  if (!DeviceOrder::note_use(block.use(), queue)) transfers_.order().order(block.use(), queue);
}

void Pager::order_queue(device::Queue waiter, device::QueueSet others) {
  const Lock lock(*this);
  transfers_.order().order(waiter, others);
}

device::QueueSet Pager::queue_here() const {
  const DeviceOrder& order = transfers_.order();
  return order.is_on_device() ? device::set_of(order.current()) : device::kNoQueue;
}

void Pager::begin_out_of_order(std::span<Block* const> blocks, device::QueueSet others) {
  DeviceOrder& order = transfers_.order();
  if (!order.is_on_device() || !order.has_several_queues()) return;
  const Lock lock(*this);
  order.order(order.current(), others);
  for (Block* block : blocks) order.order_here(order.uses_of(block->use()));
}

void Pager::end_out_of_order(std::span<Block* const> blocks, device::QueueSet others) noexcept {
  DeviceOrder& order = transfers_.order();
  if (!order.is_on_device() || !order.has_several_queues()) return;
  const Lock lock(*this);
  const device::QueueSet here = device::set_of(order.current());
  const device::Fence done = order.submitted_here();
  for (Block* block : blocks) block->use().come_behind(done);
  for (; others != device::kNoQueue; others &= others - 1) order.order(device::first_of(others), here);
}

}  // namespace tensorpager::pager
