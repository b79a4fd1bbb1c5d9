#include "tensorpager/transfer/stream_queues.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../device/world_streams.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/transfer/pinned_pool.h"

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
  std::unique_ptr<Queues> queues_ = make_stream_queues(streams_, timeline_, 64_MiB);
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

TEST(PinnedPool, TakesSlabsWithinItsLimitAndSaysWhatToDoWhenItIsFull) {
  WorldStreams streams("now");
  PinnedPool pool(streams, PinnedPool::kSlab + 1_MiB);
  const Slot first = pool.reserve(PinnedPool::kSlab);
  EXPECT_EQ(pool.pinned(), PinnedPool::kSlab);
  const Slot second = pool.reserve(1_MiB);
  EXPECT_EQ(pool.pinned(), PinnedPool::kSlab + 1_MiB) << "the last slab is as large as the limit allows";
  EXPECT_EQ(pool.reserved(), PinnedPool::kSlab + 1_MiB);
  try {
    pool.reserve(1_KiB);
    FAIL() << "was not refused";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("--pinned"), std::string::npos) << error.what();
  }
  pool.release(first);
  EXPECT_EQ(pool.reserve(1_KiB).file, first.file) << "what was released is used again";
  pool.release(second);
}

}  // namespace
}  // namespace tensorpager::transfer
