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
  ends_[direction].push_back(free_from);
  return {static_cast<device::Queue>(direction), ends_[direction].size()};
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

transfer::Fence VirtualQueues::submitted() const {
  return transfer::Fence({device::Queue::kPageOuts, ends_[kOut].size()}) |
         Ticket{device::Queue::kPageIns, ends_[kIn].size()};
}

VirtualQueues::Nanoseconds VirtualQueues::end_of(const transfer::Fence& fence) const {
  return std::max(end_of(kOut, fence.up_to(device::Queue::kPageOuts)),
                  end_of(kIn, fence.up_to(device::Queue::kPageIns)));
}

void VirtualQueues::host_wait(const transfer::Fence& fence) noexcept {
  const Nanoseconds end = end_of(fence);
  if (end <= clock_) return;
  const Nanoseconds out = end_of(kOut, fence.up_to(device::Queue::kPageOuts));
  stalled_[out == end ? kOut : kIn] += end - clock_;
  clock_ = end;
}

void VirtualQueues::forget() {
  std::ranges::fill(link_free_from_, Nanoseconds(0));
  std::ranges::fill(stalled_, Nanoseconds(0));
  handling_ = Nanoseconds(0);
}

}  // namespace tensorpager::sim
