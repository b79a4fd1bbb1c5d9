// Queues over a tier without bytes, on a clock that only they and the code that runs ops advance: a transfer takes the
// time of the machine's link, transfers of one direction follow each other, and waiting advances the clock.
#pragma once

#include <utility>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/transfer/queues.h"

namespace tensorpager::sim {

class VirtualQueues final : public transfer::Queues {
 public:
  using Nanoseconds = machine::Nanoseconds;

  /// Both must outlive this.
  VirtualQueues(const machine::Machine& machine, Nanoseconds& clock) : machine_(machine), clock_(clock) {}

  transfer::Slot reserve(base::Bytes bytes) override {
    reserved_ += bytes;
    return {.bytes = bytes};
  }
  void release(const transfer::Slot& slot) noexcept override { reserved_ -= slot.bytes; }
  transfer::Ticket submit(transfer::PageOut transfer) override;
  transfer::Ticket submit(transfer::PageIn transfer) override;
  void wait(transfer::Ticket ticket) override { host_wait(ticket); }
  bool may_fail_late() const override { return false; }
  transfer::Fence submitted() const override;
  bool is_done(const transfer::Fence& fence) override { return end_of(fence) <= clock_; }
  void host_wait(const transfer::Fence& fence) noexcept override;
  bool cancel(transfer::Ticket) noexcept override { return false; }  // it keeps its time on the link
  void before_fork() override {}                                     // no bytes are in flight
  void after_fork(bool) override {}
  base::Bytes reserved() const override { return reserved_; }
  base::Bytes pinned() const override { return {}; }
  Rates rates() const override { return {}; }
  std::string name() const override { return "virtual"; }

  /// CPU time of the transfers submitted since the last call.
  Nanoseconds take_handling() { return std::exchange(handling_, Nanoseconds(0)); }
  /// Resets the queues: both links are idle, and all times are zero.
  void forget();
  /// How far waits for page-outs, and for page-ins, advanced the clock.
  Nanoseconds stalled_for_page_outs() const { return stalled_[kOut]; }
  Nanoseconds stalled_for_page_ins() const { return stalled_[kIn]; }

 private:
  static constexpr std::size_t kOut = 0;
  static constexpr std::size_t kIn = 1;

  transfer::Ticket submit(std::size_t direction, base::Bytes bytes, Nanoseconds ready);
  Nanoseconds end_of(const transfer::Fence& fence) const;
  Nanoseconds end_of(std::size_t direction, std::uint64_t number) const {
    return number == 0 ? Nanoseconds(0) : ends_[direction][number - 1];
  }

  const machine::Machine& machine_;
  Nanoseconds& clock_;
  base::Bytes reserved_;
  Nanoseconds link_free_from_[2] = {};
  Nanoseconds stalled_[2] = {};
  Nanoseconds handling_{0};
  std::vector<Nanoseconds> ends_[2];  // by number - 1
};

}  // namespace tensorpager::sim
