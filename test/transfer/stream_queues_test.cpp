#include "tensorpager/transfer/stream_queues.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../device/world_streams.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/transfer/host_pool.h"
#include "tensorpager/transfer/staged_copies.h"

namespace tensorpager::transfer {
namespace {

using namespace base;
using device::Queue;
using device::WorldStreams;

class StreamQueuesTest : public testing::Test {
 protected:
  static constexpr Bytes kSize{4096};

  std::span<std::byte> bytes(std::byte* at) const { return {at, kSize.count()}; }
  /// A kernel of the program.
  void fill(std::byte* at, int value) {
    streams_.launch("fill", {{at, kSize.count(), true}},
                    [this, at, value] { std::memset(streams_.view(at), value, kSize.count()); });
  }
  Fence computed() { return timeline_.submitted_to(device::set_of(Queue::kCompute)); }
  bool holds(std::byte* at, int value) {
    streams_.finish();
    const auto* const found = static_cast<const std::byte*>(streams_.view(at));
    return std::all_of(found, found + kSize.count(), [&](std::byte byte) { return byte == std::byte(value); });
  }
  std::string races() {
    streams_.finish();
    const std::string report = streams_.report();
    return report.substr(report.find("\"races\""), 10);
  }

  WorldStreams streams_{"3"};
  device::StreamTimeline timeline_{streams_};
  std::unique_ptr<Queues> queues_ = make_stream_queues(streams_, timeline_, {.pinned = 64_MiB, .all = 64_MiB});
  std::byte* const from_ = streams_.allocate(kSize);
  std::byte* const to_ = streams_.allocate(kSize);
};

TEST_F(StreamQueuesTest, APageInReadsWhatThePageOutBeforeItWrote) {
  const Slot slot = queues_->reserve(kSize);
  fill(from_, 7);
  queues_->submit(PageOut{.after = computed(), .from = bytes(from_), .slot = slot});
  queues_->submit(PageIn{.slot = slot, .to = {bytes(to_)}});
  EXPECT_TRUE(holds(to_, 7));
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamQueuesTest, ASlotThatIsReservedAgainIsWrittenBehindWhoReadItBefore) {
  const Slot slot = queues_->reserve(kSize);
  fill(from_, 1);
  const Ticket out = queues_->submit(PageOut{.after = computed(), .from = bytes(from_), .slot = slot});
  queues_->submit(PageIn{.slot = slot, .to = {bytes(to_)}});
  queues_->release(slot);
  const Slot again = queues_->reserve(kSize);
  ASSERT_EQ(again.offset, slot.offset);
  timeline_.order(Queue::kCompute, out);
  fill(from_, 2);
  queues_->submit(PageOut{.after = computed(), .from = bytes(from_), .slot = again});
  EXPECT_TRUE(holds(to_, 1));
  EXPECT_EQ(races(), "\"races\": 0");
}

TEST_F(StreamQueuesTest, TheHostNeverWaits) {
  const Slot slot = queues_->reserve(kSize);
  const Ticket out = queues_->submit(PageOut{.after = computed(), .from = bytes(from_), .slot = slot});
  EXPECT_TRUE(queues_->is_done(out));
  queues_->wait(out);
  queues_->host_wait(out);
  EXPECT_FALSE(queues_->cancel(queues_->submit(PageIn{.slot = slot, .to = {bytes(to_)}})));
  EXPECT_EQ(streams_.host_waits(), 0u);
  EXPECT_FALSE(queues_->may_fail_late());
}

TEST_F(StreamQueuesTest, AllThatIsSubmittedIsDoneBeforeTheyEnd) {
  const Slot slot = queues_->reserve(kSize);
  queues_->submit(PageOut{.after = computed(), .from = bytes(from_), .slot = slot});
  queues_.reset();
  EXPECT_EQ(timeline_.host_waits(), 1u);
}

TEST(HostPool, TakesSlabsWithinItsLimitsAndSaysWhatToDoWhenItIsFull) {
  WorldStreams streams("now");
  HostPool pool(streams, HostPool::kSlab + 1_MiB, HostPool::kSlab + HostPool::kSlab);
  const Slot first = pool.reserve(HostPool::kSlab);
  EXPECT_EQ(pool.pinned(), HostPool::kSlab);
  const Slot second = pool.reserve(1_MiB);
  EXPECT_EQ(pool.pinned(), HostPool::kSlab + 1_MiB) << "the last slab is as large as the limit allows";
  EXPECT_EQ(pool.reserved(), HostPool::kSlab + 1_MiB);
  const Slot beyond = pool.reserve(1_KiB);
  EXPECT_TRUE(pool.is_pinned(second));
  EXPECT_FALSE(pool.is_pinned(beyond));
  EXPECT_EQ(pool.pageable(), HostPool::kSlab - 1_MiB);
  try {
    pool.reserve(HostPool::kSlab);
    FAIL() << "was not refused";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("give the device a larger budget"), std::string::npos) << error.what();
  }
  pool.release(first);
  EXPECT_EQ(pool.reserve(1_KiB).file, first.file) << "what was released is used again, and pinned memory first";
}

class FailingStreams final : public device::WorldStreams {
 public:
  FailingStreams() : WorldStreams("3") {}
  void copy(Queue queue, std::byte* to, const std::byte* from, Bytes bytes) override {
    if (copies_++ == 1) throw IoError("cudaMemcpyAsync", "a tensor's memory", bytes, EIO);
    WorldStreams::copy(queue, to, from, bytes);
  }

 private:
  int copies_ = 0;
};

TEST(StreamQueues, KeepTheirMemoryUntilATransferThatFailedHalfwayIsDone) {
  FailingStreams streams;
  device::StreamTimeline timeline(streams);
  auto queues = make_stream_queues(streams, timeline, {.pinned = 64_MiB, .all = 64_MiB});
  const Bytes half = 4_KiB;
  std::byte* const to = streams.allocate(half + half);
  const Slot slot = queues->reserve(half + half);
  const PageIn in{.slot = slot, .to = {{to, half.count()}, {to + half.count(), half.count()}}};
  EXPECT_THROW(queues->submit(in), IoError);
  queues.reset();
  EXPECT_EQ(timeline.host_waits(), 1u) << "for the first half";
}

class RefusingStreams final : public device::WorldStreams {
 public:
  RefusingStreams() : WorldStreams("now") {}
  std::byte* allocate_pinned(Bytes bytes) override {
    ++asked_;
    throw IoError("cudaHostAlloc", "pinned memory", bytes, ENOMEM);
  }
  int asked() const { return asked_; }

 private:
  int asked_ = 0;
};

TEST(HostPool, UsesPageableMemoryIfTheRuntimeHasNoPinnedAndAsksForItOnce) {
  RefusingStreams streams;
  HostPool pool(streams, kUnlimited, HostPool::kSlab + HostPool::kSlab);
  EXPECT_FALSE(pool.is_pinned(pool.reserve(1_KiB)));
  EXPECT_FALSE(pool.is_pinned(pool.reserve(HostPool::kSlab)));
  EXPECT_EQ(streams.asked(), 1);
}

TEST(StagedCopies, BuffersTakeAQuarterOfAllPinnedMemoryAtMost) {
  EXPECT_EQ(StagedCopies::buffer_within(kUnlimited), StagedCopies::kBuffer);
  EXPECT_EQ(StagedCopies::buffer_within(64_KiB), 16_KiB);
  EXPECT_EQ(StagedCopies::buffer_within(1_B), StagedCopies::kSmallestBuffer);
}

TEST(StagedCopies, MoveBytesOfAnyLengthInEveryOrderOfTheQueues) {
  for (const char* schedule : {"now", "1", "2", "3", "4", "5"}) {
    WorldStreams streams(schedule);
    device::StreamTimeline timeline(streams);
    const auto queues = make_stream_queues(streams, timeline, {.pinned = 16_KiB, .all = 64_MiB});
    const Bytes size = 12_KiB + 512_B;  // buffers have 4 KiB
    std::byte* const from = streams.allocate(size);
    std::byte* const to = streams.allocate(size);
    const Slot pinned = queues->reserve(8_KiB);
    const Slot slot = queues->reserve(size);
    streams.launch("fill", {{from, size.count(), true}}, [&] {
      auto* const bytes = static_cast<std::uint8_t*>(streams.view(from));
      for (std::size_t i = 0; i < size.count(); ++i) bytes[i] = static_cast<std::uint8_t>(i % 251);
    });
    const Fence filled = timeline.submitted_to(device::set_of(Queue::kCompute));
    const Ticket out = queues->submit(PageOut{.after = filled, .from = {from, size.count()}, .slot = slot});
    timeline.order(Queue::kCompute, out);
    streams.launch("wipe", {{from, size.count(), true}}, [&] { std::memset(streams.view(from), 0, size.count()); });
    queues->submit(PageIn{.slot = slot, .to = {{to, 5000}, {to + 5000, size.count() - 5000}}});
    queues->submit(PageOut{.after = timeline.submitted_to(device::set_of(Queue::kCompute)),
                           .from = {from, size.count()},
                           .slot = queues->reserve(size)});  // beside the page-in
    EXPECT_EQ(streams.host_waits(), 0u);
    streams.finish();
    const auto* const found = static_cast<const std::uint8_t*>(streams.view(to));
    for (std::size_t i = 0; i < size.count(); ++i) ASSERT_EQ(found[i], i % 251) << schedule << ", byte " << i;
    EXPECT_NE(streams.report().find("\"races\": 0"), std::string::npos) << streams.report();
    EXPECT_EQ(queues->pinned(), 16_KiB);
    queues->release(pinned);
  }
}

}  // namespace
}  // namespace tensorpager::transfer
