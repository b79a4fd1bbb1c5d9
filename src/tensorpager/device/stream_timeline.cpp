#include "tensorpager/device/stream_timeline.h"

#include <algorithm>

namespace tensorpager::device {
namespace {

/// Calls `visit(queue, number)` for each queue that the fence names.
template <typename Visit>
void for_each_queue(const Fence& fence, Visit&& visit) {
  for (std::size_t i = 0; i < kQueues; ++i) {
    const auto queue = static_cast<Queue>(i);
    if (fence.up_to(queue) > 0) visit(queue, fence.up_to(queue));
  }
}

}  // namespace

/// A kernel may have been submitted since the last call, so the number is a new one.
Fence StreamTimeline::submitted_to(QueueSet queues) {
  Fence fence;
  for (std::size_t i = index_of(Queue::kCompute); i < kQueues; ++i) {
    const auto queue = static_cast<Queue>(i);
    if ((queues & set_of(queue)) != 0) fence |= submitted(queue);
  }
  return fence;
}

Fence StreamTimeline::submitted() const {
  Fence fence;
  for (std::size_t i = 0; i < kQueues; ++i) fence |= Ticket{static_cast<Queue>(i), queues_[i].submitted};
  return fence;
}

const StreamTimeline::Mark& StreamTimeline::mark_covering(Queue queue, std::uint64_t number) {
  State& state = queues_[index_of(queue)];
  const auto found = std::ranges::find_if(state.marks, [number](const Mark& mark) { return mark.number >= number; });
  if (found != state.marks.end()) return *found;
  if (state.marks.size() == kMarks) {
    free_events_.push_back(state.marks.front().event);
    state.marks.pop_front();
  }
  if (free_events_.empty()) free_events_.push_back(streams_.make_event());
  const Event event = free_events_.back();
  streams_.record(event, queue);
  free_events_.pop_back();
  state.marks.push_back({state.submitted, event, state.seen | Ticket{queue, state.submitted}});
  return state.marks.back();
}

void StreamTimeline::order(Queue waiter, const Fence& fence) {
  Fence& seen = queues_[index_of(waiter)].seen;
  const std::uint64_t before = waits_;
  for_each_queue(fence, [&](Queue queue, std::uint64_t number) {
    if (queue == waiter || seen.covers({queue, number})) return;
    if (waits_ == before) clock_.begin_wait(waiter);
    const Mark& mark = mark_covering(queue, number);
    streams_.wait(waiter, mark.event);
    seen |= mark.seen;
    ++waits_;
  });
  if (waits_ != before) clock_.end_wait(waiter);
}

void StreamTimeline::block_host(const Fence& fence) {
  for_each_queue(fence, [&](Queue queue, std::uint64_t number) {
    streams_.block_host(mark_covering(queue, number).event);
    ++host_waits_;
  });
}

}  // namespace tensorpager::device
