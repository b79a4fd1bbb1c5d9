// How long a device's copies take: pairs of events around some of them, looked at when later ones are submitted.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/device/streams.h"
#include "tensorpager/transfer/queues.h"
#include "tensorpager/transfer/transfer_times.h"

namespace tensorpager::transfer {

class CopyTimes {
 public:
  using Begun = std::optional<device::Event>;  // nullopt: this copy is not measured

  /// `streams` must outlive this.
  explicit CopyTimes(device::Streams& streams) : streams_(streams) {}

  /// Before and after a copy is submitted. If the runtime refuses, the copy is not measured.
  Begun begin(device::Queue queue) noexcept;
  void end(const Begun& begun, device::Queue queue, base::Bytes bytes) noexcept;
  Queues::Rates rates() const { return {.out = times_[0].fit(), .in = times_[1].fit()}; }

 private:
  static constexpr std::uint64_t kAll = 256;   // copies that are all measured
  static constexpr std::uint64_t kEvery = 16;  // of those after

  struct Pair {
    device::Event begin, end;
    device::Queue queue;
    base::Bytes bytes;
  };

  device::Event take_event();
  void look_at_passed();

  device::Streams& streams_;
  std::uint64_t copies_ = 0;
  std::vector<device::Event> free_events_;
  std::deque<Pair> pairs_;  // oldest first
  std::array<TransferTimes, 2> times_;
};

}  // namespace tensorpager::transfer
