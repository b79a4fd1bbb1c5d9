// Nothing runs until the host waits for it: the host is always as far ahead of the card as it can be. The thread that
// waits runs what it waits for, and no more. A host that polls gets there, too: a task runs after so many polls between
// which nothing was queued, as those of a loop that waits, or after very many in all.
#pragma once

#include "tensorpager/fake_cuda/schedule.h"

namespace tensorpager::fake_cuda {

class LateSchedule final : public Schedule {
 public:
  static constexpr int kPollsATask = 64;      // in a row
  static constexpr int kMostPolls = 1 << 12;  // since one ran a task

  explicit LateSchedule(TaskQueues& tasks) : tasks_(tasks) {}
  void task_queued(Lock&, int) override { polls_in_a_row_ = 0; }
  void wait_for(Lock& lock, int queue, std::uint64_t position) override;
  void let_time_pass(Lock& lock) override;
  std::string name() const override { return "late"; }

 private:
  TaskQueues& tasks_;
  int polls_in_a_row_ = 0;
  int polls_ = 0;  // since one ran a task
  int next_ = 0;   // the queue whose turn it is then
};

}  // namespace tensorpager::fake_cuda
