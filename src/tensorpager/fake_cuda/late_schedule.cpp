#include "tensorpager/fake_cuda/late_schedule.h"

namespace tensorpager::fake_cuda {

void LateSchedule::wait_for(Lock& lock, int queue, std::uint64_t position) {
  while (tasks_.finished(lock, queue) < position) {
    tasks_.expect_progress(lock, queue);
    if (const int first = tasks_.first_to_run(lock, queue); tasks_.is_ready(lock, first))
      tasks_.run_head(lock, first);
    else
      tasks_.wait_for_change(lock);  // another host thread runs it
  }
}

void LateSchedule::let_time_pass(Lock& lock) {
  ++polls_;
  if (++polls_in_a_row_ < kPollsATask && polls_ < kMostPolls) return;
  polls_ = polls_in_a_row_ = 0;
  for (int i = 0; i < tasks_.count(); ++i) {
    const int queue = next_;
    next_ = (next_ + 1) % tasks_.count();
    if (!tasks_.is_ready(lock, queue)) continue;
    tasks_.run_head(lock, queue);
    return;
  }
}

}  // namespace tensorpager::fake_cuda
