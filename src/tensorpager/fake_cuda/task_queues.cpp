#include "tensorpager/fake_cuda/task_queues.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace tensorpager::fake_cuda {
namespace {

constexpr std::size_t kTimesKept = 4096;  // a queue; times between events further apart are less exact
constexpr std::chrono::seconds kLongestKernelAtExit{2};

thread_local const char* running_here = nullptr;  // the kernel that this thread runs

[[noreturn]] void fail_deadlock(const std::string& text) {
  std::fprintf(stderr, "tensorpager: deadlock on the emulated card: %s\n", text.c_str());
  std::abort();
}

/// The kernel that a queue would run next, for messages.
const char* next_kernel(const std::deque<Task>& tasks) {
  for (const Task& task : tasks)
    if (task.kernel) return task.name;
  return "nothing";
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

TaskQueues::TaskQueues(int queues, int queues_per_device)
    : queues_(static_cast<std::size_t>(queues)),
      queues_per_device_(queues_per_device),
      failures_(static_cast<std::size_t>((queues + queues_per_device - 1) / queues_per_device)) {}

void TaskQueues::refuse_inside_kernel(const char* call) {
  if (!running_here) return;
  throw std::logic_error(std::string(call) + " inside the kernel or host function " + running_here +
                         ", which may not call CUDA; try it on a thread of the program");
}

std::uint64_t TaskQueues::push(const Lock&, int queue, Task task) {
  refuse_inside_kernel(task.name);
  Queue& to = at(queue);
  to.tasks.push_back(std::move(task));
  largest_queue_ = std::max(largest_queue_, to.tasks.size());
  return ++to.queued;
}

bool TaskQueues::head_waits(const Queue& queue) const {
  const Task& head = queue.tasks.front();
  return !head.kernel && head.awaited_queue >= 0 && at(head.awaited_queue).finished < head.awaited_position;
}

bool TaskQueues::is_ready(const Lock&, int queue) const {
  const Queue& one = at(queue);
  return !one.running && !one.tasks.empty() && !head_waits(one);
}

int TaskQueues::blocker_of(const Lock&, int queue) const {
  const Queue& one = at(queue);
  return !one.running && !one.tasks.empty() && head_waits(one) ? one.tasks.front().awaited_queue : -1;
}

int TaskQueues::first_to_run(const Lock& lock, int queue) const {
  for (int blocker = blocker_of(lock, queue); blocker >= 0; blocker = blocker_of(lock, queue)) queue = blocker;
  return queue;
}

void TaskQueues::run_head(Lock& lock, int queue, long delay_us) {
  Queue& from = at(queue);
  Task task = std::move(from.tasks.front());
  from.tasks.pop_front();
  from.running = task.name;
  if (task.kernel) run(lock, queue, task, delay_us);
  from.running = nullptr;
  from.finished_times.emplace_back(++from.finished, now());
  if (from.finished_times.size() > kTimesKept) from.finished_times.pop_front();
  changed_.notify_all();
}

void TaskQueues::run(Lock& lock, int queue, Task& task, long delay_us) {
  std::string& failure = failures_[static_cast<std::size_t>(queue / queues_per_device_)];
  const bool dropped = closed_ || !failure.empty();
  std::string text;
  lock.unlock();
  if (!dropped) {
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    running_here = task.name;
    try {
      task.kernel();
    } catch (const std::exception& error) {
      text = std::string(task.name) + ": " + error.what();
    } catch (...) {
      text = std::string(task.name) + ": an exception of unknown type";
    }
    running_here = nullptr;
  }
  task.kernel = nullptr;  // what it captured is destroyed off the lock
  lock.lock();
  if (failure.empty()) failure = std::move(text);
}

void TaskQueues::expect_progress(const Lock&, int queue) const {
  std::string chain;
  std::vector<bool> seen(queues_.size());
  for (int i = queue;;) {
    const Queue& one = at(i);
    if (one.running) return;
    const std::string name = "queue " + std::to_string(i);
    if (one.tasks.empty()) fail_deadlock(chain + name + " has nothing queued after task " + std::to_string(one.queued));
    if (!head_waits(one)) return;
    if (seen[static_cast<std::size_t>(i)]) fail_deadlock(chain + name + " is where this began");
    seen[static_cast<std::size_t>(i)] = true;
    const Task& head = one.tasks.front();
    chain += name + " (next: " + next_kernel(one.tasks) + ") waits for task " + std::to_string(head.awaited_position) +
             " of queue " + std::to_string(head.awaited_queue) + ", and ";
    i = head.awaited_queue;
  }
}

double TaskQueues::finished_at(const Lock&, int queue, std::uint64_t position) const {
  double found = 0;
  for (const auto& [finished, time] : at(queue).finished_times)
    if (finished <= position) found = time;
  return found;
}

void TaskQueues::forget_failures(const Lock&) {
  for (std::string& failure : failures_) failure.clear();
}

void TaskQueues::close(Lock& lock) {
  closed_ = true;
  const auto none_runs = [this] {
    return std::none_of(queues_.begin(), queues_.end(), [](const Queue& one) { return one.running != nullptr; });
  };
  if (!running_here) changed_.wait_for(lock, kLongestKernelAtExit, none_runs);
}

}  // namespace tensorpager::fake_cuda
