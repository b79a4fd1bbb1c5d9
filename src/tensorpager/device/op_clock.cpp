#include "tensorpager/device/op_clock.h"

#include <algorithm>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::device {

thread_local OpClock::Running OpClock::t_running;

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
    t_running = {.clock = this, .queue = queue, .waits = {}};
    return begun;
  } catch (const base::IoError&) {
    return {};
  }
}

void OpClock::end(const Begun& begun, base::EventSink& sink, base::EventSink::Ticket op) noexcept {
  if (!begun.event) return sink.op_timed(op, {});  // it is known that nothing more will be
  t_running.clock = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    const Event end = take_event();
    streams_.record(end, begun.queue);
    pairs_.push_back({*begun.event, end, std::move(t_running.waits), &sink, op});
  } catch (const base::IoError&) {
    return sink.op_timed(op, {});  // as in `begin`
  }
  try {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < kAtOnce && !pairs_.empty() && streams_.is_done(pairs_.front().end); ++i) tell_of_oldest();
  } catch (const base::IoError&) {
    return;  // as in `begin`
  }
}

void OpClock::tell_of_all() {
  const std::lock_guard lock(mutex_);
  while (!pairs_.empty()) {
    streams_.block_host(pairs_.front().end);
    tell_of_oldest();
  }
}

void OpClock::tell_of_oldest() {
  const Pair pair = std::move(pairs_.front());
  pairs_.pop_front();
  std::chrono::nanoseconds took{0};
  try {
    took = std::chrono::duration_cast<std::chrono::nanoseconds>(time_of(pair));
  } catch (const base::IoError&) {
    took = {};  // as in `begin`
  }
  pair.sink->op_timed(pair.op, took);
  free_events_.insert(free_events_.end(), {pair.begin, pair.end});
  for (const Wait& wait : pair.waits)
    for (const std::optional<Event>& event : {wait.begin, wait.end})
      if (event) free_events_.push_back(*event);
}

std::chrono::duration<double> OpClock::time_of(const Pair& pair) {
  double seconds = streams_.seconds_between(pair.begin, pair.end);
  for (const Wait& wait : pair.waits)
    if (wait.begin && wait.end) seconds -= streams_.seconds_between(*wait.begin, *wait.end);
  return std::chrono::duration<double>(std::max(0.0, seconds));
}

void OpClock::note_wait(Queue queue, std::optional<Event> Wait::*side) noexcept {
  if (t_running.clock != this || t_running.queue != queue) return;
  try {
    if (side == &Wait::begin) t_running.waits.emplace_back();  // a wait of which an event is refused is not taken off
    const std::lock_guard lock(mutex_);
    const Event event = take_event();
    streams_.record(event, queue);
    t_running.waits.back().*side = event;
  } catch (const base::IoError&) {
    return;  // as in `begin`
  }
}

}  // namespace tensorpager::device
