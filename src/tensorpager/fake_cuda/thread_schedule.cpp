#include "tensorpager/fake_cuda/thread_schedule.h"

namespace tensorpager::fake_cuda {

ThreadSchedule::ThreadSchedule(TaskQueues& tasks, long delay_us)
    : tasks_(tasks), delay_us_(delay_us), workers_(static_cast<std::size_t>(tasks.count())) {
  std::random_device seed;
  for (Worker& one : workers_) one.random.seed(seed());
}

ThreadSchedule::~ThreadSchedule() {
  {
    const Lock lock = tasks_.lock();
    closing_ = true;
  }
  for (Worker& one : workers_) one.has_work.notify_all();
  for (Worker& one : workers_)
    if (one.thread.joinable()) one.thread.join();
}

void ThreadSchedule::task_queued(Lock&, int queue) {
  Worker& one = worker(queue);
  if (!one.thread.joinable()) one.thread = std::thread([this, queue] { work(queue); });
  one.has_work.notify_one();
}

void ThreadSchedule::wait_for(Lock& lock, int queue, std::uint64_t position) {
  while (tasks_.finished(lock, queue) < position) {
    tasks_.expect_progress(lock, queue);
    tasks_.wait_for_change(lock);
  }
}

void ThreadSchedule::work(int queue) {
  Worker& self = worker(queue);
  Lock lock = tasks_.lock();
  for (;;) {
    self.has_work.wait(lock, [&] { return closing_ || tasks_.is_ready(lock, queue); });
    if (closing_) return;
    tasks_.run_head(lock, queue, draw_delay(self));
    for (int other = 0; other < tasks_.count(); ++other)
      if (other != queue && tasks_.is_ready(lock, other)) worker(other).has_work.notify_one();
  }
}

long ThreadSchedule::draw_delay(Worker& one) const {
  if (delay_us_ <= 0) return 0;
  const long delay = static_cast<long>(one.random() % static_cast<unsigned long>(delay_us_ + 1));
  return one.random() % 16 == 0 ? delay * 10 : delay;
}

}  // namespace tensorpager::fake_cuda
