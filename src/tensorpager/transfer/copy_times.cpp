#include "tensorpager/transfer/copy_times.h"

#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {

using device::Event;
using device::Queue;

Event CopyTimes::take_event() {
  if (free_events_.empty()) return streams_.make_timing_event();
  const Event event = free_events_.back();
  free_events_.pop_back();
  return event;
}

CopyTimes::Begun CopyTimes::begin(Queue queue) noexcept {
  ++copies_;
  if (copies_ > kAll && copies_ % kEvery != 0) return std::nullopt;
  try {
    const Event event = take_event();
    streams_.record(event, queue);
    return event;
  } catch (const base::IoError&) {
    return std::nullopt;
  }
}

void CopyTimes::end(const Begun& begun, Queue queue, base::Bytes bytes) noexcept {
  if (!begun) return;
  try {
    const Event end = take_event();
    streams_.record(end, queue);
    pairs_.push_back({*begun, end, queue, bytes});
    look_at_passed();
  } catch (const base::IoError&) {
    return;  // the program hears of it by its own calls
  }
}

void CopyTimes::look_at_passed() {
  while (!pairs_.empty() && streams_.is_done(pairs_.front().end)) {
    const Pair pair = pairs_.front();
    pairs_.pop_front();
    times_[device::index_of(pair.queue)].add(pair.bytes, streams_.seconds_between(pair.begin, pair.end));
    free_events_.insert(free_events_.end(), {pair.begin, pair.end});
  }
}

}  // namespace tensorpager::transfer
