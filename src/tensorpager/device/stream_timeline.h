// Order between all queues of a device, by events that are recorded only where somebody waits.
//
// A queue counts what it was given. A mark is an event in a queue with the number up to which it covers the work; it
// also knows what that work had waited for itself. So a wait for what a queue has seen already, directly or through
// others, is left out, and one event serves all who wait for anything before it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "tensorpager/device/compute_queues.h"
#include "tensorpager/device/streams.h"

namespace tensorpager::device {

class StreamTimeline final : public ComputeQueues {
 public:
  explicit StreamTimeline(Streams& streams) : streams_(streams), clock_(streams) {}

  Queue current() override { return streams_.current(); }
  bool are_several() const override { return streams_.has_several_queues(); }
  Fence submitted_to(QueueSet queues) override;
  void order(Queue waiter, const Fence& fence) override;
  void block_host(const Fence& fence) override;
  void finish() override { streams_.finish(); }
  OpClock& clock() override { return clock_; }

  /// The ticket of the transfer that was just submitted to the queue.
  Ticket submitted(Queue transfers) noexcept;
  /// All that was submitted to all queues.
  Fence submitted() const;

  std::uint64_t waits() const { return waits_; }            // submitted to streams
  std::uint64_t host_waits() const { return host_waits_; }  // the host blocked

 private:
  /// Marks that a queue keeps: those before are covered by these.
  static constexpr std::size_t kMarks = 64;

  struct Mark {
    std::uint64_t number;
    Event event;
    Fence seen;
  };
  struct State {
    std::uint64_t submitted = 0;
    std::deque<Mark> marks;  // oldest first
    Fence seen;              // what its next work comes behind
  };

  Ticket number(Queue queue) { return {queue, ++queues_[index_of(queue)].submitted}; }
  const Mark& mark(Queue queue);
  const Mark& mark_covering(Queue queue, std::uint64_t number);

  Streams& streams_;
  std::array<State, kQueues> queues_;
  std::vector<Event> free_events_;
  OpClock clock_;
  std::uint64_t waits_ = 0, host_waits_ = 0;
};

}  // namespace tensorpager::device
