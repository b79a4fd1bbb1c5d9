#include "tensorpager/pager/ordering.h"

namespace tensorpager::pager {

device::QueueSet Ordering::queue_here() const {
  return order().is_on_device() ? device::set_of(order().current()) : device::kNoQueue;
}

void Ordering::order_uses(std::span<Block* const> blocks) {
  const device::Queue queue = order().current();
  if (must_stop_raising()) [[unlikely]]
    stop_raising();
  bool are_ordered = true;
  for (Block* block : blocks) are_ordered = DeviceOrder::note_use(block->use(), queue) && are_ordered;
  if (are_ordered) [[likely]]
    return;
  const Lock lock(core_.mutex);
  order_uses_in(queue, blocks);
}

bool Ordering::order_uses_locked(std::span<Block* const> blocks) {
  const device::Queue queue = order().current();  // new queues are noticed by this
  if (must_stop_raising()) return false;
  order_uses_in(queue, blocks);
  return true;
}

void Ordering::order_uses_in(device::Queue queue, std::span<Block* const> blocks) {
  for (Block* block : blocks)
    if (!DeviceOrder::note_use(block->use(), queue)) order().order(block->use(), queue);
}

bool Ordering::must_stop_raising() const {
  return order().has_several_queues() && raises_.load(std::memory_order_relaxed);
}

/// Where a backward pass changes streams, torch's engine records the uses of gradients outside of ops, by their data
/// pointers, and does not read what these point to.
void Ordering::stop_raising() {
  const Lock lock(core_.mutex);
  raises_ = false;
  if (Holders* const holders = core_.transfers.holders()) holders->stop_raising(core_.table.absent());
}

void Ordering::note_use(Block& block, device::Queue queue) {
  Block* const blocks[] = {&block};
  const Lock lock(core_.mutex);
  order_uses_in(queue, blocks);
}

void Ordering::order_queue(device::Queue waiter, device::QueueSet others) {
  const Lock lock(core_.mutex);
  order().order(waiter, others);
}

void Ordering::begin_out_of_order(std::span<Block* const> blocks, device::QueueSet others) {
  if (!order().is_on_device() || !order().has_several_queues()) return;
  const Lock lock(core_.mutex);
  order().order(order().current(), others);
  for (Block* block : blocks) order().order_here(order().uses_of(block->use()));
}

void Ordering::end_out_of_order(std::span<Block* const> blocks, device::QueueSet others) noexcept {
  if (!order().is_on_device() || !order().has_several_queues()) return;
  const Lock lock(core_.mutex);
  const device::QueueSet here = device::set_of(order().current());
  const device::Fence done = order().submitted_here();
  for (Block* block : blocks) block->use().come_behind(done);
  for (; others != device::kNoQueue; others &= others - 1) order().order(device::first_of(others), here);
}

}  // namespace tensorpager::pager
