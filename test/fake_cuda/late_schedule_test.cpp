#include "tensorpager/fake_cuda/late_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tensorpager::fake_cuda {
namespace {

class LateScheduleTest : public testing::Test {
 protected:
  void queue_kernel(int queue, int number) {
    tasks_.push(lock_, queue, {.name = "kernel", .kernel = [this, number] { ran_.push_back(number); }});
    schedule_.task_queued(lock_, queue);
  }
  /// Lets a queue wait for all that another has.
  void queue_wait(int queue, int for_queue) {
    tasks_.push(lock_, queue, {.awaited_queue = for_queue, .awaited_position = tasks_.queued(lock_, for_queue)});
    schedule_.task_queued(lock_, queue);
  }

  std::vector<int> ran_;
  TaskQueues tasks_{3, 3};
  LateSchedule schedule_{tasks_};
  Lock lock_ = tasks_.lock();
};

TEST_F(LateScheduleTest, RunsOnlyWhatTheHostWaitsFor) {
  queue_kernel(0, 1);
  queue_kernel(0, 2);
  queue_kernel(1, 3);
  EXPECT_TRUE(ran_.empty());
  schedule_.wait_for(lock_, 0, 1);
  EXPECT_EQ(ran_, std::vector({1}));
  schedule_.wait_for(lock_, 1, 1);
  EXPECT_EQ(ran_, std::vector({1, 3}));
}

TEST_F(LateScheduleTest, RunsWhatOtherQueuesWaitForFirst) {
  queue_kernel(2, 1);
  queue_wait(1, 2);
  queue_kernel(1, 2);
  queue_wait(0, 1);
  queue_kernel(0, 3);
  queue_kernel(2, 4);
  schedule_.wait_for(lock_, 0, tasks_.queued(lock_, 0));
  EXPECT_EQ(ran_, std::vector({1, 2, 3}));
}

TEST_F(LateScheduleTest, RunsATaskOfAnyQueueIfTheHostPollsForLong) {
  queue_kernel(0, 1);
  queue_kernel(0, 2);
  queue_kernel(2, 3);
  for (int i = 0; i < 4 * LateSchedule::kPollsATask; ++i) {
    EXPECT_EQ(ran_.size(), std::min(i / LateSchedule::kPollsATask, 3));
    schedule_.let_time_pass(lock_);
  }
  EXPECT_EQ(ran_, std::vector({1, 3, 2}));
}

TEST_F(LateScheduleTest, RunsNothingForAHostThatPollsNowAndThenWhileItQueues) {
  constexpr int kRounds = LateSchedule::kMostPolls / (LateSchedule::kPollsATask - 1);
  for (int i = 0; i < kRounds; ++i) {
    queue_kernel(0, i);
    for (int poll = 1; poll < LateSchedule::kPollsATask; ++poll) schedule_.let_time_pass(lock_);
  }
  EXPECT_TRUE(ran_.empty());
  for (int poll = kRounds * (LateSchedule::kPollsATask - 1); poll < LateSchedule::kMostPolls; ++poll) {
    queue_kernel(0, poll);
    schedule_.let_time_pass(lock_);
  }
  EXPECT_EQ(ran_, std::vector({0}));
}

}  // namespace
}  // namespace tensorpager::fake_cuda
