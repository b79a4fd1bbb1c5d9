// The clock of the card: through Queues, as events show it.
#include "tensorpager/fake_cuda/card_clock.h"

#include <gtest/gtest.h>

#include "tensorpager/fake_cuda/queues.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr const char* kSpeeds =
    "launch_ns=1000 byte_rate=1e9 product.float32=1e9 out_ns=2000 out_rate=1e9 in_ns=3000 in_rate=5e8";

class CardClockTest : public testing::Test {
 protected:
  void run(int queue, const Work& work) {
    queues_.enqueue(
        queue, "work", {}, [] {}, work);
  }
  /// Microseconds of the card's clock.
  double now(int queue) { return queues_.reached_at(queues_.record(queue)) * 1e6; }

  Queues queues_{4, 4, "now", 0, nullptr, parse_speeds(kSpeeds)};
};

TEST_F(CardClockTest, AKernelTakesTheLongerOfItsArithmeticAndItsBytesAndALaunch) {
  run(0, {.bytes = 5000, .flops = 2000});
  EXPECT_DOUBLE_EQ(now(0), 6);
  run(0, {.bytes = 5000, .flops = 7000});
  EXPECT_DOUBLE_EQ(now(0), 14);
  run(0, {.bytes = 0, .flops = 7000, .precision = base::Precision::kFloat64});  // no rate is known
  EXPECT_DOUBLE_EQ(now(0), 15);
}

TEST_F(CardClockTest, CopiesTakeWhatTheirLinkTakesBesideKernels) {
  run(0, {.bytes = 9000});
  run(1, {.kind = Work::Kind::kPageOut, .bytes = 1000});
  run(2, {.kind = Work::Kind::kPageIn, .bytes = 1000});
  EXPECT_DOUBLE_EQ(now(0), 10);
  EXPECT_DOUBLE_EQ(now(1), 3);
  EXPECT_DOUBLE_EQ(now(2), 5);
  EXPECT_DOUBLE_EQ(queues_.card_seconds() * 1e6, 10);
}

TEST_F(CardClockTest, AQueueThatWaitsBeginsWhenWhatItWaitsForIsDone) {
  run(0, {.bytes = 9000});
  const Ticket first = queues_.record(0);
  run(0, {.bytes = 9000});
  queues_.block(1, first);
  run(1, {});
  EXPECT_DOUBLE_EQ(now(1), 11);
}

TEST_F(CardClockTest, WhatTheHostQueuesAfterAWaitBeginsNoEarlier) {
  run(0, {.bytes = 9000});
  queues_.wait_for_queue(0);
  run(1, {});
  EXPECT_DOUBLE_EQ(now(1), 11);
}

TEST(CardClock, DoesNotRunWithoutSpeeds) {
  Queues queues(4, 4, "now", 0, nullptr);
  queues.enqueue(0, "work", {}, [] {}, {.bytes = 1000});
  EXPECT_EQ(queues.card_seconds(), 0);
}

}  // namespace
}  // namespace tensorpager::fake_cuda
