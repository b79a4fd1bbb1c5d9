#include "tensorpager/device/stream_timeline.h"

#include <algorithm>

#include "tensorpager/base/errors.h"

namespace tensorpager::device {
/// A kernel may have been submitted since the last call, so the number is a new one.
Fence StreamTimeline::submitted_to(QueueSet queues) {
  Fence fence;
  for (; queues != kNoQueue; queues &= queues - 1) fence |= number(first_of(queues));
  return fence;
}

/// Marked at once: an event that is recorded only when somebody waits comes behind all transfers after this one, too.
/// If the runtime refuses, it is recorded then.
Ticket StreamTimeline::submitted(Queue transfers) noexcept {
  const Ticket ticket = number(transfers);
  try {
    mark(transfers);
  } catch (const base::IoError&) {
    return ticket;
  }
  return ticket;
}

Fence StreamTimeline::submitted() const {
  Fence fence;
  for (std::size_t i = 0; i < kQueues; ++i) fence |= Ticket{static_cast<Queue>(i), queues_[i].submitted};
  return fence;
}

const StreamTimeline::Mark& StreamTimeline::mark_covering(Queue queue, std::uint64_t number) {
  const std::deque<Mark>& marks = queues_[index_of(queue)].marks;
  const auto found = std::ranges::lower_bound(marks, number, {}, &Mark::number);
  return found != marks.end() ? *found : mark(queue);
}

/// Behind all that the queue was given.
const StreamTimeline::Mark& StreamTimeline::mark(Queue queue) {
  State& state = queues_[index_of(queue)];
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
  fence.for_each([&](Queue queue, std::uint64_t number) {
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
  fence.for_each([&](Queue queue, std::uint64_t number) {
    streams_.block_host(mark_covering(queue, number).event);
    ++host_waits_;
  });
}

}  // namespace tensorpager::device
