// Streams of the emulated card's world, without CUDA: kernels run late, in a seeded order that starves queues, and
// races are found whatever the order.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensorpager/device/streams.h"
#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::device {

class WorldStreams : public Streams {
 public:
  using Range = fake_cuda::Range;

  /// `schedule`: `now`, or a seed.
  explicit WorldStreams(const std::string& schedule) : world_(options(schedule)) {}

  /// The stream on which the test computes from now on, from 0.
  void compute_on(std::size_t stream) {
    current_ = stream;
    streams_ = std::max(streams_, stream + 1);
  }
  /// Work of the program in the current stream.
  void launch(const char* name, const std::vector<Range>& touched, std::function<void()> kernel) {
    world_.queues().enqueue(queue_of(current()), name, touched, std::move(kernel));
  }
  /// The program lets the current stream wait for all others that it uses.
  void join_streams() {
    for (std::size_t stream = 0; stream < streams_; ++stream)
      if (stream != current_)
        world_.queues().block(queue_of(current()), world_.queues().record(static_cast<int>(stream)));
  }
  void* view(const void* at) const { return world_.view(at); }
  std::string report() { return world_.report(); }
  std::uint64_t host_waits() { return world_.queues().counts().host_waits; }

  Queue current() override { return static_cast<Queue>(index_of(Queue::kCompute) + current_); }
  bool has_several_queues() const override { return streams_ > 1; }
  Event make_event() override {
    events_.emplace_back();
    return events_.size() - 1;
  }
  void record(Event event, Queue queue) override { events_[event] = world_.queues().record(queue_of(queue)); }
  void wait(Queue queue, Event event) override { world_.queues().block(queue_of(queue), events_[event]); }
  void finish() override { world_.queues().wait_for_all(); }
  void block_host(Event event) override { world_.queues().wait(events_[event]); }
  Event make_timing_event() override { return make_event(); }
  bool is_done(Event event) override { return world_.queues().is_done(events_[event]); }
  double seconds_between(Event begin, Event end) override {
    return world_.queues().reached_at(events_[end]) - world_.queues().reached_at(events_[begin]);
  }
  void copy(Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) override {
    const std::size_t n = bytes.count();
    world_.queues().enqueue(queue_of(queue), "copy", {{to, n, true}, {from, n, false}},
                            [this, to, from, n] { std::memcpy(view(to), view(from), n); });
  }
  void copy_on_host(Queue queue, std::byte* to, const std::byte* from, base::Bytes bytes) override {
    const std::size_t n = bytes.count();
    world_.queues().enqueue(queue_of(queue), "copy on the host", {{to, n, true}, {from, n, false}},
                            [to, from, n] { std::memcpy(to, from, n); });
  }
  std::byte* allocate(base::Bytes bytes) override { return static_cast<std::byte*>(world_.allocate(0, bytes.count())); }
  void free(std::byte* memory) noexcept override { world_.free(memory); }
  std::byte* allocate_pinned(base::Bytes bytes) override {
    return static_cast<std::byte*>(world_.allocate_pinned(bytes.count()));
  }
  void free_pinned(std::byte* memory) noexcept override { world_.free_pinned(memory); }

 private:
  static fake_cuda::WorldOptions options(const std::string& schedule) {
    fake_cuda::WorldOptions options;
    options.card.devices = 1;
    options.card.memory = 64 << 20;
    options.schedule = schedule;
    return options;
  }
  /// The world's queues of transfers are its last two.
  static int queue_of(Queue queue) {
    if (queue < Queue::kCompute) return fake_cuda::World::kQueuesPerDevice - 2 + static_cast<int>(queue);
    return static_cast<int>(index_of(queue) - index_of(Queue::kCompute));
  }

  fake_cuda::World world_;
  std::vector<fake_cuda::Ticket> events_;
  std::size_t current_ = 0, streams_ = 1;
};

}  // namespace tensorpager::device
