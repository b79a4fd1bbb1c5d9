#include "tensorpager/transfer/stream_queues.h"

#include <algorithm>

#include "tensorpager/transfer/copy_times.h"
#include "tensorpager/transfer/host_pool.h"
#include "tensorpager/transfer/staged_copies.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;
using device::Queue;

class StreamQueues final : public Queues {
 public:
  /// Of pinned memory, what `staged` may take is left to it.
  StreamQueues(device::Streams& streams, device::StreamTimeline& timeline, HostLimits limits)
      : streams_(streams),
        timeline_(timeline),
        staged_(streams, StagedCopies::buffer_within(limits.pinned)),
        pool_(streams, limits.pinned - std::min(limits.pinned, staged_.most_pinned()), limits.all) {}
  ~StreamQueues() override { timeline_.block_host(submitted()); }

  Slot reserve(Bytes bytes) override { return pool_.reserve(bytes); }
  void release(const Slot& slot) noexcept override { pool_.release(slot); }

  Ticket submit(PageOut transfer) override {
    if (transfer.first) transfer.first();
    timeline_.order(Queue::kPageOuts, transfer.after | pool_.fence_of(transfer.slot));
    const CopyTimes::Begun begun = times_.begin(Queue::kPageOuts);
    std::byte* const to = pool_.memory_of(transfer.slot) + transfer.at.count();
    note_if_it_fails(Queue::kPageOuts, transfer.slot, [&] {
      if (pool_.is_pinned(transfer.slot))
        streams_.copy(Queue::kPageOuts, to, transfer.from.data(), Bytes(transfer.from.size()));
      else
        staged_.out(to, transfer.from);
    });
    times_.end(begun, Queue::kPageOuts, Bytes(transfer.from.size()));
    return note(Queue::kPageOuts, transfer.slot);
  }
  Ticket submit(PageIn transfer) override {
    timeline_.order(Queue::kPageIns, transfer.after | pool_.fence_of(transfer.slot));
    const CopyTimes::Begun begun = times_.begin(Queue::kPageIns);
    const std::byte* const from = pool_.memory_of(transfer.slot) + transfer.at.count();
    Bytes bytes;
    note_if_it_fails(Queue::kPageIns, transfer.slot, [&] {
      bytes = pool_.is_pinned(transfer.slot) ? copy_in(transfer.to, from) : staged_.in(transfer.to, from);
    });
    times_.end(begun, Queue::kPageIns, bytes);
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
  Bytes pinned() const override { return pool_.pinned() + staged_.pinned(); }
  Rates rates() const override { return times_.rates(); }
  std::string name() const override { return "pinned memory"; }

 private:
  Bytes copy_in(const std::vector<std::span<std::byte>>& to, const std::byte* from) {
    Bytes copied;
    for (const std::span<std::byte> part : to) {
      streams_.copy(Queue::kPageIns, part.data(), from + copied.count(), Bytes(part.size()));
      copied += Bytes(part.size());
    }
    return copied;
  }
  /// If it fails on the way, memory and slot are not free before what it has submitted is done.
  void note_if_it_fails(Queue queue, const Slot& slot, auto&& copy) {
    try {
      copy();
    } catch (...) {
      note(queue, slot);
      throw;
    }
  }
  Ticket note(Queue queue, const Slot& slot) {
    const Ticket ticket = timeline_.submitted(queue);
    last_[device::index_of(queue)] = ticket;
    pool_.copied(slot, ticket);
    return ticket;
  }

  device::Streams& streams_;
  device::StreamTimeline& timeline_;
  StagedCopies staged_;
  HostPool pool_;
  CopyTimes times_{streams_};
  Ticket last_[2] = {{Queue::kPageOuts, 0}, {Queue::kPageIns, 0}};
};

}  // namespace

std::unique_ptr<Queues> make_stream_queues(device::Streams& streams, device::StreamTimeline& timeline,
                                           HostLimits limits) {
  return std::make_unique<StreamQueues>(streams, timeline, limits);
}

}  // namespace tensorpager::transfer
