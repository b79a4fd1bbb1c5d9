// A tier without bytes, on a clock that only this engine and the code that runs ops advance: a transfer takes the time
// of the machine's link, transfers of one direction follow each other, and waiting advances the clock.
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

  /// CPU time of the transfers submitted since the last call.
  Nanoseconds take_handling() { return std::exchange(handling_, Nanoseconds(0)); }
  /// Resets the engine: both links are idle, and all times are zero.
  void forget();
  /// How far waits for page-outs, and for page-ins, advanced the clock.
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
