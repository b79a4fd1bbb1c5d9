// A tier without bytes, on a clock that only this engine and who runs ops move on: a transfer takes what the machine's
// link says, transfers of a direction follow each other, and waiting costs no time but the clock's.
#pragma once

#include <utility>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::sim {

class VirtualEngine final : public transfer::Engine {
 public:
  using Nanoseconds = machine::Nanoseconds;

  /// Both must outlive this.
  VirtualEngine(const machine::Machine& machine, Nanoseconds& clock) : machine_(machine), clock_(clock) {}

  transfer::Slot reserve(base::Bytes bytes) override {
    reserved_ += bytes;
    return {.bytes = bytes};
  }
  void release(const transfer::Slot& slot) noexcept override { reserved_ -= slot.bytes; }
  transfer::Ticket submit_page_out(std::span<const std::byte> from, const transfer::Slot& slot,
                                   base::Bytes at) override;
  transfer::Ticket submit_page_in(const transfer::Slot& slot, base::Bytes at, std::span<std::byte> to) override;
  transfer::Ticket submit_page_in_after(transfer::Ticket page_out, const transfer::Slot& slot, base::Bytes at,
                                        std::span<std::byte> to) override;
  void wait(transfer::Ticket ticket) override;
  bool may_fail_late() const override { return false; }
  bool is_done(transfer::Ticket ticket) override { return end_of(ticket) <= clock_; }
  void after_fork(bool) override {}
  base::Bytes reserved() const override { return reserved_; }
  std::string name() const override { return "virtual"; }

  /// What handling the transfers submitted since the last call costs who runs ops.
  Nanoseconds take_handling() { return std::exchange(handling_, Nanoseconds(0)); }
  /// Both links are idle, and nothing is under way.
  void forget();
  /// Time that the clock was moved on by waits for page-outs, and for page-ins.
  Nanoseconds stalled_for_page_outs() const { return stalled_[kOut]; }
  Nanoseconds stalled_for_page_ins() const { return stalled_[kIn]; }

 private:
  static constexpr std::size_t kOut = 0;
  static constexpr std::size_t kIn = 1;

  transfer::Ticket submit(std::size_t direction, base::Bytes bytes, Nanoseconds ready);
  Nanoseconds end_of(transfer::Ticket ticket) const;

  const machine::Machine& machine_;
  Nanoseconds& clock_;
  base::Bytes reserved_;
  Nanoseconds link_free_from_[2] = {};
  Nanoseconds stalled_[2] = {};
  Nanoseconds handling_{0};
  std::vector<Nanoseconds> ends_;  // by ticket - 1, of both directions
  std::vector<std::uint8_t> directions_;
};

}  // namespace tensorpager::sim
