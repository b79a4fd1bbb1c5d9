// When queued tasks run, and on which thread. To add one: a class, and its name in make_schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tensorpager/fake_cuda/task_queues.h"

namespace tensorpager::fake_cuda {

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// A task was pushed. May run tasks, with the lock released.
  virtual void task_queued(Lock& lock, int queue) = 0;
  /// Returns when the task at a position has finished.
  virtual void wait_for(Lock& lock, int queue, std::uint64_t position) = 0;
  /// The host polls: if time passes only with calls, some passes now.
  virtual void let_time_pass(Lock& lock) = 0;
  virtual std::string name() const = 0;
};

/// `text`: now, late, threads, or a seed. Throws InvalidArgument. `delay_us`: the longest usual delay of a kernel under
/// `threads`.
std::unique_ptr<Schedule> make_schedule(TaskQueues& tasks, std::string_view text, long delay_us);

}  // namespace tensorpager::fake_cuda
