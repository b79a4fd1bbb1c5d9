#include "tensorpager/sim/virtual_queues.h"

#include <algorithm>

namespace tensorpager::sim {

using base::Bytes;
using transfer::Ticket;

Ticket VirtualQueues::submit(std::size_t direction, Bytes bytes, Nanoseconds ready) {
  const machine::Link& link = direction == kOut ? machine_.out : machine_.in;
  Nanoseconds& free_from = link_free_from_[direction];
  free_from = std::max({clock_, free_from, ready}) + link.time_of(bytes);
  handling_ += link.handling;
  ends_.push_back(free_from);
  directions_.push_back(static_cast<std::uint8_t>(direction));
  return {ends_.size()};
}

Ticket VirtualQueues::submit(transfer::PageOut transfer) {
  if (transfer.first) transfer.first();
  return submit(kOut, Bytes(transfer.from.size()), Nanoseconds(0));
}

Ticket VirtualQueues::submit(transfer::PageIn transfer) {
  Bytes bytes;
  for (const std::span<std::byte> part : transfer.to) bytes += Bytes(part.size());
  if (transfer.then) transfer.then();
  return submit(kIn, bytes, end_of(transfer.after));
}

VirtualQueues::Nanoseconds VirtualQueues::end_of(Ticket ticket) const {
  return ticket.is_finished() ? Nanoseconds(0) : ends_[ticket.number - 1];
}

void VirtualQueues::wait(Ticket ticket) {
  const Nanoseconds end = end_of(ticket);
  if (end <= clock_) return;
  stalled_[directions_[ticket.number - 1]] += end - clock_;
  clock_ = end;
}

void VirtualQueues::forget() {
  std::ranges::fill(link_free_from_, Nanoseconds(0));
  std::ranges::fill(stalled_, Nanoseconds(0));
  handling_ = Nanoseconds(0);
}

}  // namespace tensorpager::sim
