// Order between the users of places in an arena that blocks share: the next user of a place comes behind the copies and
// the computation of those before, which may not be done when they give the place back.
//
// All calls are made with the pager's lock held. Without such an arena nothing is ordered here.
#pragma once

#include <cstdint>

#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/device_order.h"
#include "tensorpager/pager/passed_on_places.h"
#include "tensorpager/pager/placed_binding.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

class PlaceOrder {
 public:
  /// Both must outlive this.
  PlaceOrder(Binding& binding, Statistics& counts)
      : placed_(binding.placed()), order_(placed_ != nullptr ? placed_->compute_queues() : nullptr), counts_(counts) {}

  /// Those of a session; null: none. No place is in use else.
  void use(transfer::Queues* queues);
  /// Whether a place can be passed on before its bytes are copied: the session's binding and tier allow it.
  bool passes_on() const { return passes_on_; }
  /// The order of what a device computes.
  DeviceOrder& device() { return order_; }
  const DeviceOrder& device() const { return order_; }

  /// What must be done before the place is used, by those that had it.
  transfer::Fence uses_of(const Place& place) const;
  /// What must be done before the block is moved or copied: its own work.
  transfer::Fence uses_of(Block& block) const;
  /// The block is about to give its place back.
  void leave(Block& block) noexcept;
  /// The copy from a block's place, which is passed on.
  void pass_on(const Block& block);
  /// The copies of the block with this number whose places were passed on.
  transfer::Fence copies_of(std::uint64_t block) const { return passed_on_.copies_of(block); }

  /// A new block begins in a place that is free.
  void begin_in(Block& block, const Place& place);
  /// The same for a slab chunk, which anybody may use.
  void begin_slab_in(const Place& place);
  /// Moves a resident block, whose address nobody has taken, to a place that is free but for the block itself.
  void move(Block& block, const Place& to);
  /// Waits for copies.
  void await(const transfer::Fence& copies) noexcept;

 private:
  PlacedBinding* const placed_;  // the binding, if its blocks have places; else null
  DeviceOrder order_;
  Statistics& counts_;
  transfer::Queues* queues_ = nullptr;
  bool passes_on_ = false;
  PassedOnPlaces passed_on_;
};

}  // namespace tensorpager::pager
