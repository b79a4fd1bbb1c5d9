#include "tensorpager/transfer/stream_queues.h"

#include "tensorpager/transfer/copy_times.h"
#include "tensorpager/transfer/pinned_pool.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;
using device::Queue;

class StreamQueues final : public Queues {
 public:
  StreamQueues(device::Streams& streams, device::StreamTimeline& timeline, Bytes pinned)
      : streams_(streams), timeline_(timeline), pool_(streams, pinned) {}
  ~StreamQueues() override { timeline_.block_host(submitted()); }

  Slot reserve(Bytes bytes) override { return pool_.reserve(bytes); }
  void release(const Slot& slot) noexcept override { pool_.release(slot); }

  Ticket submit(PageOut transfer) override {
    if (transfer.first) transfer.first();
    timeline_.order(Queue::kPageOuts, transfer.after | pool_.fence_of(transfer.slot));
    const CopyTimes::Begun begun = times_.begin(Queue::kPageOuts);
    streams_.copy(Queue::kPageOuts, pool_.memory_of(transfer.slot) + transfer.at.count(), transfer.from.data(),
                  Bytes(transfer.from.size()));
    times_.end(begun, Queue::kPageOuts, Bytes(transfer.from.size()));
    return note(Queue::kPageOuts, transfer.slot);
  }
  Ticket submit(PageIn transfer) override {
    timeline_.order(Queue::kPageIns, transfer.after | pool_.fence_of(transfer.slot));
    const CopyTimes::Begun begun = times_.begin(Queue::kPageIns);
    const std::byte* const first = pool_.memory_of(transfer.slot) + transfer.at.count();
    const std::byte* from = first;
    for (const std::span<std::byte> part : transfer.to) {
      streams_.copy(Queue::kPageIns, part.data(), from, Bytes(part.size()));
      from += part.size();
    }
    times_.end(begun, Queue::kPageIns, Bytes(static_cast<std::uint64_t>(from - first)));
    const Ticket ticket = note(Queue::kPageIns, transfer.slot);
    if (transfer.then) transfer.then();
    return ticket;
  }

  void wait(Ticket) override {}
  bool is_done(const Fence&) override { return true; }
  void host_wait(const Fence&) noexcept override {}
  bool cancel(Ticket) noexcept override { return false; }
  bool may_fail_late() const override { return false; }
  Fence submitted() const override { return Fence(last_[0]) | last_[1]; }

  // A child has no device. What it inherits are records only.
  void before_fork() override {}
  void after_fork(bool) override {}

  Bytes reserved() const override { return pool_.reserved(); }
  Rates rates() const override { return times_.rates(); }
  std::string name() const override { return "pinned memory"; }

 private:
  Ticket note(Queue queue, const Slot& slot) {
    const Ticket ticket = timeline_.submitted(queue);
    last_[device::index_of(queue)] = ticket;
    pool_.copied(slot, ticket);
    return ticket;
  }

  device::Streams& streams_;
  device::StreamTimeline& timeline_;
  PinnedPool pool_;
  CopyTimes times_{streams_};
  Ticket last_[2] = {{Queue::kPageOuts, 0}, {Queue::kPageIns, 0}};
};

}  // namespace

std::unique_ptr<Queues> make_stream_queues(device::Streams& streams, device::StreamTimeline& timeline, Bytes pinned) {
  return std::make_unique<StreamQueues>(streams, timeline, pinned);
}

}  // namespace tensorpager::transfer
