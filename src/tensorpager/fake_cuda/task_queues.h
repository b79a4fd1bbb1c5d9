// FIFO queues of tasks: kernels, and waits for a place in another queue. Which head runs next, and on which thread, is
// a Schedule's choice.
//
// Tasks of a queue run one at a time in their order. After a kernel of a device has failed none of that device's run:
// they finish without effect. Functions take the lock as evidence that it is held; kernels run with it released.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tensorpager::fake_cuda {

using Lock = std::unique_lock<std::mutex>;

struct Task {
  const char* name = "";              // lives for ever
  std::function<void()> kernel = {};  // null: a wait
  int awaited_queue = -1;             // of a wait
  std::uint64_t awaited_position = 0;
};

class TaskQueues {
 public:
  TaskQueues(int queues, int queues_per_device);

  Lock lock() { return Lock(mutex_); }
  int count() const { return static_cast<int>(queues_.size()); }
  int queues_per_device() const { return queues_per_device_; }

  /// Throws std::logic_error inside a kernel: kernels and host functions may not call CUDA, nor could they on a card.
  static void refuse_inside_kernel(const char* call);
  /// Returns the task's position. Not inside a kernel.
  std::uint64_t push(const Lock&, int queue, Task task);
  std::uint64_t queued(const Lock&, int queue) const { return at(queue).queued; }
  std::uint64_t finished(const Lock&, int queue) const { return at(queue).finished; }
  /// Whether the queue's head may begin.
  bool is_ready(const Lock&, int queue) const;
  /// The queue that a head that is not ready waits for; -1 if there is none.
  int blocker_of(const Lock&, int queue) const;
  /// The queue that must go on first so that this one does: the last of those whose heads wait for each other. They may
  /// not wait in a circle, see expect_progress.
  int first_to_run(const Lock& lock, int queue) const;
  /// Runs the head of a ready queue on this thread, after `delay_us` microseconds.
  void run_head(Lock& lock, int queue, long delay_us = 0);
  /// Sleeps until some task has finished or `wake` was called.
  void wait_for_change(Lock& lock) { changed_.wait(lock); }
  void wake() { changed_.notify_all(); }
  /// Aborts with a message that says who waits for whom if nothing can finish what a queue's head waits for.
  void expect_progress(const Lock&, int queue) const;
  /// When the newest task up to a position finished, in seconds; 0 if that was long ago or never.
  double finished_at(const Lock&, int queue, std::uint64_t position) const;
  std::size_t largest_queue(const Lock&) const { return largest_queue_; }

  /// The first failure of a device's kernels; empty if there was none.
  const std::string& failure(const Lock&, int device) const { return failures_[static_cast<std::size_t>(device)]; }
  void forget_failures(const Lock&);
  /// From now on nothing runs: the process ends, and what kernels use may be gone. Waits a little for what is running.
  void close(Lock& lock);

 private:
  struct Queue {
    std::deque<Task> tasks;
    std::uint64_t queued = 0;
    std::uint64_t finished = 0;
    const char* running = nullptr;                                // name of the task that runs now
    std::deque<std::pair<std::uint64_t, double>> finished_times;  // of the newest tasks
  };

  Queue& at(int queue) { return queues_[static_cast<std::size_t>(queue)]; }
  const Queue& at(int queue) const { return queues_[static_cast<std::size_t>(queue)]; }
  bool head_waits(const Queue& queue) const;
  void run(Lock& lock, int queue, Task& task, long delay_us);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Queue> queues_;
  int queues_per_device_;
  std::vector<std::string> failures_;  // by device
  std::size_t largest_queue_ = 0;      // tasks
  bool closed_ = false;
};

/// Seconds of a clock that only goes forward.
double now();

}  // namespace tensorpager::fake_cuda
