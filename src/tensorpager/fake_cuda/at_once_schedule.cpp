#include "tensorpager/fake_cuda/at_once_schedule.h"

namespace tensorpager::fake_cuda {

void AtOnceSchedule::task_queued(Lock& lock, int queue) {
  const std::uint64_t position = tasks_.queued(lock, queue);
  while (tasks_.finished(lock, queue) < position) {
    if (tasks_.is_ready(lock, queue)) {
      tasks_.run_head(lock, queue);
      continue;
    }
    tasks_.expect_progress(lock, queue);  // another host thread runs what this one is behind
    tasks_.wait_for_change(lock);
  }
}

void AtOnceSchedule::wait_for(Lock& lock, int queue, std::uint64_t position) {
  while (tasks_.finished(lock, queue) < position) {
    tasks_.expect_progress(lock, queue);
    tasks_.wait_for_change(lock);
  }
}

}  // namespace tensorpager::fake_cuda
