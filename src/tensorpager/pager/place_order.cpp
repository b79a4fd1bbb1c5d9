#include "tensorpager/pager/place_order.h"

#include "tensorpager/base/clock.h"

namespace tensorpager::pager {

void PlaceOrder::use(transfer::Queues* queues) {
  queues_ = queues;
  passes_on_ = queues != nullptr && placed_ != nullptr && placed_->passes_places_on() && !queues->may_fail_late();
  passed_on_ = {};
}

transfer::Fence PlaceOrder::uses_of(const Place& place) const {
  return passes_on_ ? passed_on_.uses_of(place) : transfer::Fence();
}

transfer::Fence PlaceOrder::uses_of(Block& block) const {
  return placed_ != nullptr ? order_.uses_of(block.use()) : transfer::Fence();
}

void PlaceOrder::leave(Block& block) noexcept {
  if (passes_on_) passed_on_.add(Places::place_of(block), order_.uses_of(block.use()));
}

void PlaceOrder::pass_on(const Block& block) { passed_on_.add_copy(block.number, block.copy, *queues_); }

void PlaceOrder::begin_in(Block& block, const Place& place) {
  if (!order_.is_on_device()) return await(uses_of(place));
  block.use().begin_behind(uses_of(place));
  order_.use_here(block.use());
}

void PlaceOrder::begin_slab_in(const Place& place) {
  if (order_.is_on_device()) return order_.block_host(uses_of(place));
  await(uses_of(place));
}

void PlaceOrder::move(Block& block, const Place& to) {
  if (!order_.is_on_device()) {
    await(uses_of(to));
    return placed_->move(block, to);
  }
  const Place from = Places::place_of(block);
  order_.order_here(uses_of(to) | order_.uses_of(block.use()));
  placed_->move(block, to);
  const transfer::Fence moved = order_.submitted_here();
  passed_on_.add(from, moved);
  block.use().begin_behind(moved);
}

void PlaceOrder::await(const transfer::Fence& copies) noexcept {
  if (copies.is_empty()) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  queues_->host_wait(copies);
}

}  // namespace tensorpager::pager
