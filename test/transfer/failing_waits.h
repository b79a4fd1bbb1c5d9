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
    note(Direction::kOut);
    return {newest_};
  }
  Ticket submit(PageIn transfer) override {
    wait(std::exchange(transfer.after, {}));
    if (!note(Direction::kIn)) transfer.then = {};
    ForwardingQueues::submit(std::move(transfer));
    return {newest_};
  }
  void wait(Ticket ticket) override {
    if (const auto failure = failures_.extract(ticket.number)) std::rethrow_exception(failure.mapped());
  }
  bool cancel(Ticket ticket) noexcept override {
    failures_.erase(ticket.number);
    return false;
  }

 private:
  /// Returns whether the wait for the next transfer will succeed.
  bool note(Direction direction) {
    ++newest_;
    try {
      at_wait_(direction);
      return true;
    } catch (...) {
      failures_[newest_] = std::current_exception();
      return false;
    }
  }

  std::function<void(Direction)> at_wait_;
  std::uint64_t newest_ = 0;  // ticket
  std::map<std::uint64_t, std::exception_ptr> failures_;
};

}  // namespace tensorpager::transfer
