#include "tensorpager/device/op_clock.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <thread>

#include "tensorpager/base/errors.h"
#include "world_streams.h"

namespace tensorpager::device {
namespace {

class Sink final : public base::EventSink {
 public:
  Ticket op_begins(const base::OpFacts&, std::span<const base::Touch>) noexcept override { return 0; }
  void op_touches(Ticket, std::span<const base::Touch>) noexcept override {}
  Ticket op_ends(Ticket op, std::chrono::nanoseconds) noexcept override { return op; }
  void op_timed(Ticket op, std::chrono::nanoseconds took) noexcept override { times[op] += took; }
  void block_born(Ticket, const base::NewBlock&) noexcept override {}
  void block_died(Ticket, std::uint64_t) noexcept override {}
  void slab_grew(base::Bytes) noexcept override {}
  void hint(base::Hint) noexcept override {}

  std::map<Ticket, std::chrono::nanoseconds> times;
};

class OpClockTest : public testing::Test {
 protected:
  void run(base::EventSink::Ticket op, std::chrono::milliseconds takes) {
    const OpClock::Begun begun = clock_.begin();
    streams_.launch("kernel", {}, [takes] { std::this_thread::sleep_for(takes); });
    clock_.end(begun, sink_, op);
  }

  WorldStreams streams_{"1"};
  OpClock clock_{streams_};
  Sink sink_;
};

TEST_F(OpClockTest, TellsHowLongTheDeviceTookOnceItHasPassedTheOp) {
  run(1, std::chrono::milliseconds(20));
  run(2, std::chrono::milliseconds(1));
  streams_.finish();
  run(3, {});  // tells of those before
  ASSERT_TRUE(sink_.times.contains(1) && sink_.times.contains(2));
  EXPECT_GE(sink_.times[1], std::chrono::milliseconds(20));
  EXPECT_GE(sink_.times[2], std::chrono::milliseconds(1));
  EXPECT_LT(sink_.times[2], std::chrono::milliseconds(20)) << "an op's time is not that of the one before";
}

TEST_F(OpClockTest, CountsNoWaitsWithinAnOp) {
  const OpClock::Begun begun = clock_.begin();
  clock_.begin_wait(begun.queue);
  streams_.launch("another's work", {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  clock_.end_wait(begun.queue);
  streams_.launch("kernel", {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  clock_.end(begun, sink_, 1);
  clock_.begin_wait(begun.queue);  // of no op
  clock_.end_wait(begun.queue);
  streams_.finish();
  run(2, {});
  ASSERT_TRUE(sink_.times.contains(1));
  EXPECT_GE(sink_.times[1], std::chrono::milliseconds(5));
  EXPECT_LT(sink_.times[1], std::chrono::milliseconds(50));
}

TEST_F(OpClockTest, WaitsForAllOpsIfItIsAsked) {
  for (base::EventSink::Ticket op = 1; op <= 20; ++op) run(op, std::chrono::milliseconds(1));
  EXPECT_LT(sink_.times.size(), 20u) << "the device is behind";
  clock_.tell_of_all();
  EXPECT_EQ(sink_.times.size(), 20u);
}

class RefusingStreams final : public WorldStreams {
 public:
  using WorldStreams::WorldStreams;
  void record(Event event, Queue queue) override {
    if (--until_refusal == 0) throw base::IoError("cudaEventRecord", "an event", base::Bytes(0), EIO);
    WorldStreams::record(event, queue);
  }
  int until_refusal = 0;  // calls; 0 or less: none is refused
};

TEST(RefusedEvents, LeaveNoOpUntimed) {
  for (int refused = 1; refused <= 5; ++refused) {  // the fifth is of the next op
    RefusingStreams streams("1");
    OpClock clock(streams);
    Sink sink;
    streams.until_refusal = refused;
    for (base::EventSink::Ticket op = 1; op <= 2; ++op) {
      const OpClock::Begun begun = clock.begin();
      clock.begin_wait(Queue::kCompute);
      clock.end_wait(Queue::kCompute);
      clock.end(begun, sink, op);
    }
    clock.tell_of_all();
    EXPECT_EQ(sink.times.size(), 2u) << refused;
  }
}

TEST_F(OpClockTest, IsBehindByNoMoreThanTheDeviceIs) {
  for (base::EventSink::Ticket op = 1; op <= 100; ++op) {
    run(op, {});
    streams_.finish();
  }
  EXPECT_GE(sink_.times.size(), 99u);
}

}  // namespace
}  // namespace tensorpager::device
