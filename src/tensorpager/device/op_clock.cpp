#include "tensorpager/device/op_clock.h"

#include "tensorpager/base/errors.h"

namespace tensorpager::device {

/// With the lock held.
Event OpClock::take_event() {
  if (free_events_.empty()) return streams_.make_timing_event();
  const Event event = free_events_.back();
  free_events_.pop_back();
  return event;
}

OpClock::Begun OpClock::begin() noexcept {
  try {
    const Queue queue = streams_.current();
    const std::lock_guard lock(mutex_);
    const Begun begun{take_event(), queue};
    streams_.record(*begun.event, queue);
    return begun;
  } catch (const base::IoError&) {
    return {};
  }
}

void OpClock::end(const Begun& begun, base::EventSink& sink, base::EventSink::Ticket op) noexcept {
  if (!begun.event) return;
  try {
    const std::lock_guard lock(mutex_);
    const Event end = take_event();
    streams_.record(end, begun.queue);
    pairs_.push_back({*begun.event, end, &sink, op});
    tell_of_passed();
  } catch (const base::IoError&) {
    return;  // as in `begin`
  }
}

void OpClock::tell_of_passed() {
  for (int i = 0; i < kAtOnce && !pairs_.empty() && streams_.is_done(pairs_.front().end); ++i) {
    const Pair pair = pairs_.front();
    pairs_.pop_front();
    const std::chrono::duration<double> took(streams_.seconds_between(pair.begin, pair.end));
    pair.sink->op_timed(pair.op, std::chrono::duration_cast<std::chrono::nanoseconds>(took));
    free_events_.insert(free_events_.end(), {pair.begin, pair.end});
  }
}

}  // namespace tensorpager::device
