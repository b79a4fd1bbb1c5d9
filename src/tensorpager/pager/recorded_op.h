// One op as a sink sees it: begins when its working set is resident, ends with the scope. An op that runs inside a
// recorded one adds what it touches to that one.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/base/inline_vector.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class RecordedOp {
 public:
  RecordedOp() = default;
  ~RecordedOp() {
    if (sink_ == nullptr || t_state.recorded_op == 0) return;  // 0: forked in the middle, and the child has no sink
    const auto paging = std::exchange(t_state.paging, {});
    const auto took = clock_ == nullptr ? std::chrono::steady_clock::now() - begin_ - paging : kTimedLater;
    const base::EventSink::Ticket counts = sink_->op_ends(std::exchange(t_state.recorded_op, 0), took);
    if (clock_ != nullptr) clock_->end(begun_, *sink_, counts);
    t_state.op_ended = std::chrono::steady_clock::now();
  }
  RecordedOp(const RecordedOp&) = delete;
  RecordedOp& operator=(const RecordedOp&) = delete;

  /// Notes that the op touches the block of this number; before it begins.
  void touch(std::uint64_t block, Access access) { touches_.push_back({block, access == Access::kWrite}); }

  /// Reports the op with what it touches. `pins`: the op's own; those around it belong to Python-registered kernels,
  /// whose arguments are pinned meanwhile.
  void begin(base::EventSink& sink, const PinSet& pins, base::OpFacts facts) {
    if (t_state.recorded_op != 0) {
      sink.op_touches(t_state.recorded_op, touched());
      return;
    }
    for (const PinSet* around = pins.parent(); around != nullptr; around = around->parent()) {
      around->for_each([&](const Block& block) {
        if ((block.state() & kDead) == 0) touch(block.number, Access::kRead);
      });
    }
    sink_ = &sink;
    clock_ = pins.pager().ordering().op_clock();
    // A device does not wait between two ops of the host.
    const bool has_before = clock_ == nullptr && t_state.op_ended != std::chrono::steady_clock::time_point();
    if (has_before) facts.before = std::chrono::steady_clock::now() - t_state.op_ended - t_state.paging;
    t_state.recorded_op = sink.op_begins(facts, touched());
    t_state.paging = {};
    if (clock_ != nullptr)
      begun_ = clock_->begin();
    else
      begin_ = std::chrono::steady_clock::now();
  }

 private:
  static constexpr std::chrono::steady_clock::duration kTimedLater{0};

  std::span<const base::Touch> touched() const { return {touches_.begin(), touches_.size()}; }

  base::InlineVector<base::Touch, 12> touches_;
  base::EventSink* sink_ = nullptr;  // null before it begins, and inside another op
  std::chrono::steady_clock::time_point begin_;
  device::OpClock* clock_ = nullptr;  // null on a host
  device::OpClock::Begun begun_;
};

}  // namespace tensorpager::pager
