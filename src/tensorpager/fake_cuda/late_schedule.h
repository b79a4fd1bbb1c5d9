// Nothing runs until the host waits for it: the host is always as far ahead of the card as it can be. The thread that
// waits runs what it waits for, and no more. A host that polls gets there, too: one poll in so many runs a task.
#pragma once

#include "tensorpager/fake_cuda/schedule.h"

namespace tensorpager::fake_cuda {

class LateSchedule final : public Schedule {
 public:
  static constexpr int kPollsATask = 64;

  explicit LateSchedule(TaskQueues& tasks) : tasks_(tasks) {}
  void task_queued(Lock&, int) override {}
  void wait_for(Lock& lock, int queue, std::uint64_t position) override;
  void let_time_pass(Lock& lock) override;
  std::string name() const override { return "late"; }

 private:
  TaskQueues& tasks_;
  int polls_ = 0;  // since a poll ran a task
  int next_ = 0;   // the queue whose turn it is then
};

}  // namespace tensorpager::fake_cuda
