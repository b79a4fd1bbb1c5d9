// How long ops take on a device: a pair of events around each, which a sink is told about when the device has passed
// them. The begin is recorded when the op's arguments are in place, so that its waits for them are not counted; nor are
// those for places of what it makes, around which there is a pair of events, too.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/device/streams.h"

namespace tensorpager::device {

class OpClock {
 public:
  /// An op that began. One that never ends loses an event.
  struct Begun {
    std::optional<Event> event;  // nullopt if the runtime refused, of which the program hears by its own calls; the
                                 // op is told to have taken no time then
    Queue queue = Queue::kCompute;
  };

  /// `streams` must outlive this.
  explicit OpClock(Streams& streams) : streams_(streams) {}

  /// Any thread may call these. The op's work is what the calling thread submits to its queue in between.
  Begun begin() noexcept;
  /// `sink`, which lives for ever, is told of the op's time by `op_timed`, from a later call of this.
  void end(const Begun& begun, base::EventSink& sink, base::EventSink::Ticket op) noexcept;
  /// Blocks until the device has passed all ops that ended, of which the sinks are told. Throws IoError.
  void tell_of_all();
  /// Around waits that are submitted to a queue by the calling thread. They count for the op that it runs there.
  void begin_wait(Queue queue) noexcept { note_wait(queue, &Wait::begin); }
  void end_wait(Queue queue) noexcept { note_wait(queue, &Wait::end); }

 private:
  /// Pairs that one call looks at: more than one, so that they are told of faster than they come.
  static constexpr int kAtOnce = 4;

  struct Wait {
    std::optional<Event> begin, end;
  };
  struct Pair {
    Event begin, end;
    std::vector<Wait> waits;
    base::EventSink* sink;
    base::EventSink::Ticket op;
  };
  /// What the calling thread runs.
  struct Running {
    const OpClock* clock = nullptr;
    Queue queue = Queue::kCompute;
    std::vector<Wait> waits;
  };

  Event take_event();
  void note_wait(Queue queue, std::optional<Event> Wait::*side) noexcept;
  std::chrono::duration<double> time_of(const Pair& pair);
  void tell_of_oldest();

  static thread_local Running t_running;

  Streams& streams_;
  std::mutex mutex_;
  std::vector<Event> free_events_;
  std::deque<Pair> pairs_;  // oldest first
};

}  // namespace tensorpager::device
