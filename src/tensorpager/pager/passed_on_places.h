// Places of the arena that were passed on before the bytes in them were copied to the tier. A later user of such a
// place is ordered behind the copy: a page-in waits for it in its queue, and the host waits before it writes there
// itself.
//
// Only a tier whose copies cannot fail after their submission has such places (Queues::may_fail_late): else the bytes
// would be lost by a failure.
#pragma once

#include <algorithm>
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

  /// The newest copy from bytes of `range`; a finished ticket if there is none.
  transfer::Ticket newest_copy_from(const arena::Place& range) const {
    return newest([&](const PassedOn& one) { return one.place.overlaps(range); });
  }
  /// The newest copy of the block with this number; a finished ticket if there is none.
  transfer::Ticket newest_copy_of(std::uint64_t block) const {
    return newest([&](const PassedOn& one) { return one.block == block; });
  }
  /// The newest copy of all; a finished ticket if there is none.
  transfer::Ticket newest_copy() const {
    return newest([](const PassedOn&) { return true; });
  }

 private:
  struct PassedOn {
    std::uint64_t block;
    arena::Place place;
    transfer::Ticket copy;
  };

  template <typename Condition>
  transfer::Ticket newest(Condition&& condition) const {
    const auto found = std::find_if(places_.rbegin(), places_.rend(), condition);
    return found == places_.rend() ? transfer::Ticket() : found->copy;
  }

  std::deque<PassedOn> places_;  // oldest copy first
};

}  // namespace tensorpager::pager
