// One thread per queue, as a card's queues are independent of each other; each kernel after a random delay. Real races
// are then real, and ThreadSanitizer sees them. The order differs from run to run.
#pragma once

#include <condition_variable>
#include <random>
#include <thread>
#include <vector>

#include "tensorpager/fake_cuda/schedule.h"

namespace tensorpager::fake_cuda {

class ThreadSchedule final : public Schedule {
 public:
  /// One kernel in sixteen is delayed up to ten times `delay_us`, so that the other queues run far ahead.
  ThreadSchedule(TaskQueues& tasks, long delay_us);
  /// Drops what has not begun.
  ~ThreadSchedule() override;
  ThreadSchedule(const ThreadSchedule&) = delete;
  ThreadSchedule& operator=(const ThreadSchedule&) = delete;

  void task_queued(Lock& lock, int queue) override;
  void wait_for(Lock& lock, int queue, std::uint64_t position) override;
  void let_time_pass(Lock&) override {}
  std::string name() const override { return "threads"; }

 private:
  struct Worker {
    std::thread thread;
    std::condition_variable has_work;
    std::mt19937_64 random;
  };

  void work(int queue);
  long draw_delay(Worker& worker) const;
  Worker& worker(int queue) { return workers_[static_cast<std::size_t>(queue)]; }

  TaskQueues& tasks_;
  long delay_us_;
  std::vector<Worker> workers_;  // by queue; a thread starts with the queue's first task
  bool closing_ = false;
};

}  // namespace tensorpager::fake_cuda
