// Places of the arena that were passed on before the bytes in them were copied to the tier. A later user of such a
// place is ordered behind the copy: a page-in waits for it in its queue, and the host waits before it writes there
// itself.
//
// Only a tier whose copies cannot fail after their submission has such places (Queues::may_fail_late): else the bytes
// would be lost by a failure.
#pragma once

#include <cstdint>
#include <deque>

#include "tensorpager/arena/placement.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::pager {

class PassedOnPlaces {
 public:
  /// `block`: the number of the block that is copied. Copies are added in the order of their submission.
  void add(std::uint64_t block, const arena::Place& place, transfer::Ticket copy) {
    places_.push_back({block, place, copy});
  }
  void remove_copied(transfer::Queues& queues) {
    while (!places_.empty() && queues.is_done(places_.front().copy)) places_.pop_front();
  }

  /// The copies from bytes of `range`.
  transfer::Fence copies_from(const arena::Place& range) const {
    return merge([&](const PassedOn& one) { return one.place.overlaps(range); });
  }
  /// The copies of the block with this number.
  transfer::Fence copies_of(std::uint64_t block) const {
    return merge([&](const PassedOn& one) { return one.block == block; });
  }
  transfer::Fence copies() const {
    return merge([](const PassedOn&) { return true; });
  }

 private:
  struct PassedOn {
    std::uint64_t block;
    arena::Place place;
    transfer::Ticket copy;
  };

  template <typename Condition>
  transfer::Fence merge(Condition&& condition) const {
    transfer::Fence fence;
    for (const PassedOn& one : places_)
      if (condition(one)) fence |= one.copy;
    return fence;
  }

  std::deque<PassedOn> places_;  // oldest copy first
};

}  // namespace tensorpager::pager
