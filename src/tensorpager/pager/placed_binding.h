// What only a binding does whose blocks share one arena, where room is not enough and a place is needed.
#pragma once

#include "tensorpager/device/compute_queues.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/holders.h"
#include "tensorpager/pager/places.h"

namespace tensorpager::pager {

class PlacedBinding : public Binding {
 public:
  PlacedBinding(base::Bytes granule, base::Bytes most) : places_(granule, most) {}
  PlacedBinding* placed() final { return this; }
  PageMover* page_mover() final { return nullptr; }

  Places& places() { return places_; }
  /// Whether a place may be passed on while it is still copied from, as its next user is ordered behind the copy (see
  /// PassedOnPlaces). Such a copy is not cancelled: its place is in use until it is done.
  virtual bool passes_places_on() const = 0;
  /// The queues of the device whose memory the arena is; null if it is the host's. If it is a device's, it passes
  /// places on.
  virtual device::ComputeQueues* compute_queues() = 0;
  /// Moves a resident block, whose address nobody has taken, to a place that is free but for the block itself. A device
  /// does so in the calling thread's queue.
  virtual void move(Block& block, const Place& to) = 0;
  /// Gives the block's place to `old`; the block has none: it is absent while it is still copied from there.
  virtual void leave_place_to(Block& old, Block& block) = 0;
  /// Who is notified where blocks are; null if nobody is.
  virtual Holders* holders() = 0;

 protected:
  Places places_;
};

}  // namespace tensorpager::pager
