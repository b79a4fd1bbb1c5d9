// A task runs when it is queued, on the thread that queues it. All that is queued is then done when the call returns,
// so programs are as easy to debug as on the CPU; other host threads' tasks may be under way.
#pragma once

#include "tensorpager/fake_cuda/schedule.h"

namespace tensorpager::fake_cuda {

class AtOnceSchedule final : public Schedule {
 public:
  explicit AtOnceSchedule(TaskQueues& tasks) : tasks_(tasks) {}
  void task_queued(Lock& lock, int queue) override;
  void wait_for(Lock& lock, int queue, std::uint64_t position) override;
  void let_time_pass(Lock&) override {}
  std::string name() const override { return "now"; }

 private:
  TaskQueues& tasks_;
};

}  // namespace tensorpager::fake_cuda
