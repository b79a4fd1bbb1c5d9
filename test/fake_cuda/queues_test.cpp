#include "tensorpager/fake_cuda/queues.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tensorpager::fake_cuda {
namespace {

constexpr int kQueues = 8;
constexpr int kQueuesPerDevice = 4;

/// Every test of this fixture holds under every schedule.
class QueuesUnder : public testing::TestWithParam<const char*> {
 protected:
  Queues queues_{kQueues, kQueuesPerDevice, GetParam(), 50, nullptr};
};

TEST_P(QueuesUnder, RunAQueuesKernelsInTheirOrder) {
  std::vector<int> ran;
  for (int i = 0; i < 200; ++i) queues_.enqueue(1, "append", {}, [&ran, i] { ran.push_back(i); });
  queues_.wait_for_queue(1);
  ASSERT_EQ(ran.size(), 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST_P(QueuesUnder, RunWhatIsBehindAWaitAfterWhatItWaitsFor) {
  int value = 0;
  std::vector<int> seen;
  for (int i = 1; i <= 100; ++i) {
    queues_.enqueue(0, "set", {}, [&value, i] { value = i; });
    queues_.block(1, queues_.record(0));
    queues_.enqueue(1, "read", {}, [&] { seen.push_back(value); });
    queues_.block(0, queues_.record(1));
  }
  queues_.wait_for_all();
  ASSERT_EQ(seen.size(), 100U);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i - 1)], i);
}

TEST_P(QueuesUnder, AnEventIsDoneWhenWhatWasQueuedBeforeItIs) {
  std::atomic<bool> ran{false};
  queues_.enqueue(2, "run", {}, [&] { ran = true; });
  const Ticket ticket = queues_.record(2);
  while (!queues_.is_done(ticket)) EXPECT_FALSE(ran && queues_.counts().kernels != 1);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(queues_.is_done(Ticket{})) << "an event that was never recorded";
}

TEST_P(QueuesUnder, NothingOfADeviceRunsAfterAKernelFailed) {
  std::atomic<int> ran{0};
  queues_.enqueue(0, "index", {}, [] { throw std::out_of_range("index out of range in self"); });
  queues_.wait_for_device(0);
  queues_.enqueue(1, "late", {}, [&] { ++ran; });
  queues_.enqueue(kQueuesPerDevice, "on the other device", {}, [&] { ran += 10; });
  queues_.wait_for_all();
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(queues_.failure(0), "index: index out of range in self");
  EXPECT_EQ(queues_.failure(1), "");
  queues_.forget_failures();
  queues_.enqueue(1, "after", {}, [&] { ++ran; });
  queues_.wait_for_all();
  EXPECT_EQ(ran, 11);
}

TEST_P(QueuesUnder, AKernelMayNotCallCuda) {
  queues_.enqueue(0, "outer", {}, [&] { queues_.enqueue(0, "inner", {}, [] {}); });
  queues_.wait_for_queue(0);
  EXPECT_EQ(queues_.failure(0),
            "outer: inner inside the kernel or host function outer, which may not call CUDA; try it on a thread of the "
            "program");
  queues_.forget_failures();
  queues_.enqueue(1, "waits", {}, [&] { queues_.wait_for_queue(1); });
  queues_.wait_for_queue(1);
  EXPECT_EQ(queues_.failure(0).substr(0, 20), "waits: a wait inside");
}

TEST_P(QueuesUnder, NothingRunsAfterTheyAreClosed) {
  int ran = 0;
  queues_.close();
  queues_.enqueue(0, "late", {}, [&] { ++ran; });
  queues_.wait_for_all();
  EXPECT_EQ(ran, 0);
}

TEST_P(QueuesUnder, AnEventWasReachedNoEarlierThanItWasRecorded) {
  const Ticket first = queues_.record(0);
  queues_.enqueue(0, "run", {}, [] {});
  const Ticket second = queues_.record(0);
  queues_.wait(second);
  EXPECT_GE(queues_.reached_at(first), first.recorded_at);
  EXPECT_GE(queues_.reached_at(second), queues_.reached_at(first));
}

TEST_P(QueuesUnder, DeadlockSaysWhoWaitsForWhom) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto wait_for_each_other = [this] {
    Ticket future_of_2 = queues_.record(2);
    future_of_2.position = 5;
    Ticket future_of_1 = queues_.record(1);
    future_of_1.position = 5;
    std::thread other([&] { queues_.block(2, future_of_1); });
    queues_.block(1, future_of_2);
    queues_.enqueue(1, "mm", {}, [] {});
    other.join();
    queues_.wait_for_queue(1);
  };
  EXPECT_DEATH(wait_for_each_other(),
               "deadlock on the emulated card: .*(queue 1 .*waits for task 5 of queue 2|queue 2 .*waits for task 5 of "
               "queue 1)")
      << "whichever thread sees it first says it";
}

INSTANTIATE_TEST_SUITE_P(Schedules, QueuesUnder, testing::Values("now", "threads", "1", "2"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Queues, DeadlockNamesTheOpBehindTheWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto wait_for_the_future = [] {
    Queues queues(kQueues, kQueuesPerDevice, "7", 0, nullptr);
    Ticket future = queues.record(2);
    future.position = 3;
    queues.block(1, future);
    queues.enqueue(1, "mm", {}, [] {});
    queues.wait_for_queue(1);
  };
  EXPECT_DEATH(wait_for_the_future(), "queue 1 .next: mm. waits for task 3 of queue 2, and queue 2 has nothing queued");
}

/// The order in which a seeded schedule runs kernels of four queues.
std::vector<int> order_under(const std::string& seed) {
  Queues queues(kQueues, kQueuesPerDevice, seed, 0, nullptr);
  std::vector<int> order;
  for (int i = 0; i < 400; ++i) queues.enqueue(i % 4, "note", {}, [&order, i] { order.push_back(i); });
  queues.wait_for_all();
  return order;
}

TEST(Queues, TheSameSeedIsTheSameOrderAndAnotherIsAnother) {
  EXPECT_EQ(order_under("5"), order_under("5"));
  EXPECT_NE(order_under("5"), order_under("6"));
}

}  // namespace
}  // namespace tensorpager::fake_cuda
