// Places of the arena that were passed on before the work on the bytes in them was done: copies to and from the tier,
// and what a device computes. A later user of such a place is ordered behind that: a page-in waits for it in its queue,
// a device's queue before it computes there, and a host before it writes there itself.
//
// Only a tier whose copies cannot fail after their submission has such places (Queues::may_fail_late): else the bytes
// would be lost by a failure.
#pragma once

#include <cstdint>
#include <deque>

#include "tensorpager/arena/placement.h"
#include "tensorpager/device/range_fences.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

class PassedOnPlaces {
 public:
  /// `fence`: when its last user is done, who had come behind `uses_of` the place.
  void add(const arena::Place& place, const transfer::Fence& fence) { places_.set(place.offset, place.end(), fence); }
  /// The copy of a block, by its number, whose place is passed on. Copies are added in the order of their submission.
  void add_copy(std::uint64_t block, transfer::Ticket copy, transfer::Queues& queues) {
    while (!copies_.empty() && queues.is_done(copies_.front().copy)) copies_.pop_front();
    copies_.push_back({block, copy});
  }

  /// The work on bytes of `range`.
  transfer::Fence uses_of(const arena::Place& range) const { return places_.over(range.offset, range.end()); }
  /// The copies of the block with this number.
  transfer::Fence copies_of(std::uint64_t block) const {
    transfer::Fence fence;
    for (const Copy& one : copies_)
      if (one.block == block) fence |= one.copy;
    return fence;
  }

 private:
  struct Copy {
    std::uint64_t block;
    transfer::Ticket copy;
  };

  device::RangeFences places_;
  std::deque<Copy> copies_;  // oldest first
};

}  // namespace tensorpager::pager
