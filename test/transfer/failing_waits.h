// Synchronous queues whose transfers may fail when somebody waits for them, though their bytes were copied.
#pragma once

#include <functional>

#include "forwarding_queues.h"

namespace tensorpager::transfer {

enum class Direction { kOut, kIn };

class FailingWaits final : public ForwardingQueues {
 public:
  /// `at_wait`, with the direction of the transfer, throws if the wait is to fail.
  FailingWaits(std::unique_ptr<Tier> tier, std::function<void(Direction)> at_wait)
      : ForwardingQueues(make_synchronous_queues(std::move(tier))), at_wait_(std::move(at_wait)) {}

  Ticket submit_page_out_after(const std::function<void()>& first, std::span<const std::byte> from, const Slot& slot,
                               base::Bytes at) override {
    ForwardingQueues::submit_page_out_after(first, from, slot, at);
    return kWritten;
  }
  Ticket submit_page_in_after(Ticket page_out, const Slot& slot, base::Bytes at, std::span<std::byte> to) override {
    wait(page_out);
    ForwardingQueues::submit_page_in_after({}, slot, at, to);
    return kRead;
  }
  void wait(Ticket ticket) override {
    if (!ticket.is_finished()) at_wait_(ticket == kWritten ? Direction::kOut : Direction::kIn);
  }

 private:
  static constexpr Ticket kWritten{1};
  static constexpr Ticket kRead{2};

  std::function<void(Direction)> at_wait_;
};

}  // namespace tensorpager::transfer
