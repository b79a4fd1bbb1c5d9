// One op as a sink sees it: begins when its working set is resident, ends with the scope. An op that runs inside a
// recorded one adds what it touches to that one.
#pragma once

#include <chrono>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/base/inline_vector.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

/// What one op touches, as it is handed to a sink.
class Touches {
 public:
  void add(std::uint64_t block, Access access) { list_.push_back({block, access == Access::kWrite}); }
  std::span<const base::Touch> list() const { return {list_.begin(), list_.size()}; }

 private:
  base::InlineVector<base::Touch, 12> list_;
};

class RecordedOp {
 public:
  /// `pins`: the op's own; those around it belong to Python-registered kernels, whose arguments are pinned meanwhile.
  RecordedOp(base::EventSink& sink, const PinSet& pins, const base::OpFacts& facts, Touches& touches) {
    if (t_state.recorded_op != 0) {
      sink.op_touches(t_state.recorded_op, touches.list());
      return;
    }
    for (const PinSet* around = pins.parent(); around != nullptr; around = around->parent()) {
      around->for_each([&](const Block& block) {
        if ((block.state() & kDead) == 0) touches.add(block.number, Access::kRead);
      });
    }
    sink_ = &sink;
    base::OpFacts all = facts;
    const bool has_before = t_state.op_ended != std::chrono::steady_clock::time_point();
    if (has_before) all.before = std::chrono::steady_clock::now() - t_state.op_ended - t_state.paging;
    t_state.recorded_op = sink.op_begins(all, touches.list());
    t_state.paging = {};
    begin_ = std::chrono::steady_clock::now();
  }
  ~RecordedOp() {
    if (sink_ == nullptr || t_state.recorded_op == 0) return;  // 0: forked in the middle, and the child has no sink
    const auto took = std::chrono::steady_clock::now() - begin_ - std::exchange(t_state.paging, {});
    sink_->op_ends(std::exchange(t_state.recorded_op, 0), took);
    t_state.op_ended = std::chrono::steady_clock::now();
  }
  RecordedOp(const RecordedOp&) = delete;
  RecordedOp& operator=(const RecordedOp&) = delete;

 private:
  base::EventSink* sink_ = nullptr;  // null inside another op
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace tensorpager::pager
