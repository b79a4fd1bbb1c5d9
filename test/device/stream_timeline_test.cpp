#include "tensorpager/device/stream_timeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "world_streams.h"

namespace tensorpager::device {
namespace {

constexpr auto kSecondStream = static_cast<Queue>(index_of(Queue::kCompute) + 1);

class StreamTimelineTest : public testing::Test {
 protected:
  /// The ticket of new work in a queue of transfers.
  Ticket transfer(Queue queue) {
    streams_.copy(queue, memory_, pinned_, base::Bytes(512));
    return timeline_.submitted(queue);
  }
  /// Work of the program that the timeline does not see.
  void compute(std::size_t stream) {
    streams_.compute_on(stream);
    streams_.launch("kernel", {{memory_, 512, true}}, [] {});
  }
  std::string races() {
    streams_.finish();
    const std::string report = streams_.report();
    return report.substr(report.find("\"races\""), 10);
  }

  WorldStreams streams_{"1"};
  StreamTimeline timeline_{streams_};
  std::byte* const memory_ = streams_.allocate(base::Bytes(512));
  std::byte* const pinned_ = streams_.allocate_pinned(base::Bytes(512));
};

TEST_F(StreamTimelineTest, WhatIsOrderedComesBehind) {
  compute(0);
  timeline_.order(Queue::kPageIns, timeline_.submitted_to(set_of(Queue::kCompute)));
  const Ticket in = transfer(Queue::kPageIns);
  timeline_.order(kSecondStream, in);
  compute(1);
  EXPECT_EQ(timeline_.waits(), 2u);
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamTimelineTest, WhatIsNotOrderedIsFoundByTheTestsThatUseThis) {
  compute(0);
  transfer(Queue::kPageIns);
  EXPECT_EQ(races(), "\"races\": 1");
}

TEST_F(StreamTimelineTest, AFenceOfNowCoversWorkThatNobodyCounted) {
  compute(0);
  const Fence first = timeline_.submitted_to(set_of(Queue::kCompute));
  timeline_.order(Queue::kPageIns, first);
  transfer(Queue::kPageIns);
  timeline_.order(Queue::kCompute, timeline_.submitted());
  compute(0);
  timeline_.order(Queue::kPageIns, timeline_.submitted_to(set_of(Queue::kCompute)));
  transfer(Queue::kPageIns);
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamTimelineTest, AQueueNeedNotWaitForItselfNorTwice) {
  const Ticket in = transfer(Queue::kPageIns);
  timeline_.order(Queue::kPageIns, in);
  EXPECT_EQ(timeline_.waits(), 0u);
  timeline_.order(Queue::kCompute, in);
  timeline_.order(Queue::kCompute, in);
  EXPECT_EQ(timeline_.waits(), 1u);
}

TEST_F(StreamTimelineTest, AWaitForWhatWasSeenThroughAnotherQueueIsLeftOut) {
  const Ticket in = transfer(Queue::kPageIns);
  timeline_.order(Queue::kCompute, in);
  compute(0);
  timeline_.order(kSecondStream, timeline_.submitted_to(set_of(Queue::kCompute)));
  timeline_.order(kSecondStream, in);
  compute(1);
  EXPECT_EQ(timeline_.waits(), 2u);
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamTimelineTest, AQueueHasNotSeenWhatCameAfterItsWait) {
  const Ticket first = transfer(Queue::kPageIns);
  timeline_.order(Queue::kCompute, first);
  const Ticket second = transfer(Queue::kPageIns);
  timeline_.order(kSecondStream, first);
  timeline_.order(kSecondStream, second);
  compute(1);
  EXPECT_EQ(timeline_.waits(), 3u);
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamTimelineTest, OneEventServesAllWhoWaitForWhatItCovers) {
  const Ticket first = transfer(Queue::kPageIns);
  const Ticket second = transfer(Queue::kPageIns);
  timeline_.order(Queue::kCompute, second);
  timeline_.order(Queue::kCompute, first);
  EXPECT_EQ(timeline_.waits(), 1u);
}

TEST(StreamTimeline, AWaitIsForNoTransferAfterTheOneThatItIsFor) {
  WorldStreams streams("threads");
  StreamTimeline timeline(streams);
  std::byte* const memory = streams.allocate(base::Bytes(1024));
  std::byte* const pinned = streams.allocate_pinned(base::Bytes(1024));
  const auto page_out = [&](std::size_t at) {
    streams.copy(Queue::kPageOuts, pinned + at, memory + at, base::Bytes(512));
    return timeline.submitted(Queue::kPageOuts);
  };
  std::atomic<bool> is_released{false}, timed_out{false};
  const Ticket first = page_out(0);
  streams.compute_on(1);
  streams.launch("held", {{memory + 512, 512, true}}, [&] {
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!is_released && !timed_out) timed_out = std::chrono::steady_clock::now() > latest;
  });
  timeline.order(Queue::kPageOuts, timeline.submitted_to(set_of(kSecondStream)));
  page_out(512);
  streams.compute_on(0);
  timeline.order(Queue::kCompute, first);
  streams.launch("kernel", {{memory, 512, true}}, [] {});
  timeline.block_host(timeline.submitted_to(set_of(Queue::kCompute)));
  is_released = true;
  streams.finish();
  EXPECT_FALSE(timed_out) << "the kernel waited for the second page-out as well";
}

TEST_F(StreamTimelineTest, EventsAreUsedAgain) {
  for (int i = 0; i < 1000; ++i) {
    timeline_.order(Queue::kCompute, transfer(Queue::kPageIns));
    compute(0);
    timeline_.order(Queue::kPageIns, timeline_.submitted_to(set_of(Queue::kCompute)));
  }
  EXPECT_LT(streams_.make_event(), 200u);
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamTimelineTest, TheHostBlocksOnRequestOnly) {
  timeline_.order(Queue::kCompute, transfer(Queue::kPageIns));
  EXPECT_EQ(timeline_.host_waits(), 0u);
  timeline_.block_host(transfer(Queue::kPageIns));
  EXPECT_EQ(timeline_.host_waits(), 1u);
}

}  // namespace
}  // namespace tensorpager::device
