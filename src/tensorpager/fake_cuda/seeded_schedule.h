// One device thread, and an order that is drawn from a seed: the same program with the same seed runs its kernels in
// the same order, so that what a race breaks breaks again. Time passes only within calls of the host.
//
// Queues have priorities, redrawn now and then. One of low priority starves unless the host waits for it: an order
// that is uniformly random keeps queues within a few tasks of each other and misses what needs one to run far ahead.
#pragma once

#include <condition_variable>
#include <random>
#include <thread>
#include <vector>

#include "tensorpager/fake_cuda/schedule.h"

namespace tensorpager::fake_cuda {

class SeededSchedule final : public Schedule {
 public:
  SeededSchedule(TaskQueues& tasks, std::uint64_t seed);
  /// Drops what has not begun.
  ~SeededSchedule() override;
  SeededSchedule(const SeededSchedule&) = delete;
  SeededSchedule& operator=(const SeededSchedule&) = delete;

  void task_queued(Lock& lock, int) override { let_time_pass(lock); }
  void wait_for(Lock& lock, int queue, std::uint64_t position) override;
  /// Few kernels run, most often none: the host is usually ahead of the card.
  void let_time_pass(Lock& lock) override;
  std::string name() const override { return std::to_string(seed_); }

 private:
  void start();
  void work();
  bool has_reason(const Lock& lock) const { return budget_ > 0 || awaited_queue(lock) >= 0; }
  /// A queue that the host waits for; -1 if there is none.
  int awaited_queue(const Lock& lock) const;
  /// The queue whose head runs next; -1 if all that could run starve.
  int pick(const Lock& lock);
  void draw_priorities();

  TaskQueues& tasks_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<unsigned> priorities_;    // by queue
  std::vector<std::uint64_t> awaited_;  // by queue: the host waits for this position
  unsigned budget_ = 0;                 // kernels that may run although the host does not wait for them
  bool busy_ = false;                   // the device thread is running tasks
  bool closing_ = false;
  std::condition_variable has_work_;
  std::thread device_;
};

}  // namespace tensorpager::fake_cuda
