// Synchronous queues whose transfers may fail late: the bytes of a page-out were copied, but nobody may rely on it, and
// what follows a page-in is not done.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>

#include "forwarding_queues.h"

namespace tensorpager::transfer {

enum class Direction { kOut, kIn };

class FailingWaits final : public ForwardingQueues {
 public:
  /// `at_wait`, called at the submission with the direction of the transfer, throws what the wait for it is to throw.
  FailingWaits(std::unique_ptr<Tier> tier, std::function<void(Direction)> at_wait)
      : ForwardingQueues(make_synchronous_queues(std::move(tier))), at_wait_(std::move(at_wait)) {}

  Ticket submit(PageOut transfer) override {
    ForwardingQueues::submit(std::move(transfer));
    return note(Direction::kOut);
  }
  Ticket submit(PageIn transfer) override {
    for (const auto& [failed, failure] : failures_)
      if (transfer.after.covers(failed)) std::rethrow_exception(failure);
    const Ticket ticket = note(Direction::kIn);
    if (failures_.contains(ticket)) transfer.then = {};
    ForwardingQueues::submit(std::move(transfer));
    return ticket;
  }
  void wait(Ticket ticket) override {
    if (const auto failure = failures_.extract(ticket)) std::rethrow_exception(failure.mapped());
  }
  bool cancel(Ticket ticket) noexcept override {
    failures_.erase(ticket);
    return false;
  }

 private:
  /// The ticket of the next transfer.
  Ticket note(Direction direction) {
    const bool is_out = direction == Direction::kOut;
    const Ticket ticket{is_out ? device::Queue::kPageOuts : device::Queue::kPageIns, ++newest_};
    try {
      at_wait_(direction);
    } catch (...) {
      failures_[ticket] = std::current_exception();
    }
    return ticket;
  }

  std::function<void(Direction)> at_wait_;
  std::uint64_t newest_ = 0;  // ticket
  std::map<Ticket, std::exception_ptr> failures_;
};

}  // namespace tensorpager::transfer
