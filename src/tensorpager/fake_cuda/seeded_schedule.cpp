#include "tensorpager/fake_cuda/seeded_schedule.h"

#include <algorithm>

namespace tensorpager::fake_cuda {
namespace {

constexpr unsigned kPriorities = 1000;
constexpr unsigned kStarvedBelow = 400;   // of kPriorities: at any time some two queues in five starve
constexpr unsigned kPicksPerRedraw = 64;  // on average; long enough that the others run far ahead
constexpr unsigned kKernelsPerCall[] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 4};

}  // namespace

SeededSchedule::SeededSchedule(TaskQueues& tasks, std::uint64_t seed)
    : tasks_(tasks),
      seed_(seed),
      random_(seed),
      priorities_(static_cast<std::size_t>(tasks.count())),
      awaited_(static_cast<std::size_t>(tasks.count())) {
  draw_priorities();
}

SeededSchedule::~SeededSchedule() {
  {
    const Lock lock = tasks_.lock();
    closing_ = true;
  }
  has_work_.notify_all();
  if (device_.joinable()) device_.join();
}

void SeededSchedule::draw_priorities() {
  for (unsigned& priority : priorities_) priority = static_cast<unsigned>(random_() % kPriorities);
}

void SeededSchedule::start() {
  if (!device_.joinable()) device_ = std::thread([this] { work(); });
  has_work_.notify_all();
}

void SeededSchedule::let_time_pass(Lock& lock) {
  const unsigned kernels = kKernelsPerCall[random_() % std::size(kKernelsPerCall)];
  if (kernels == 0) return;
  budget_ = kernels;
  start();
  while (budget_ > 0 || busy_) tasks_.wait_for_change(lock);
}

void SeededSchedule::wait_for(Lock& lock, int queue, std::uint64_t position) {
  std::uint64_t& awaited = awaited_[static_cast<std::size_t>(queue)];
  while (tasks_.finished(lock, queue) < position) {
    awaited = std::max(awaited, position);
    start();
    tasks_.wait_for_change(lock);
  }
}

int SeededSchedule::awaited_queue(const Lock& lock) const {
  for (int queue = 0; queue < tasks_.count(); ++queue)
    if (tasks_.finished(lock, queue) < awaited_[static_cast<std::size_t>(queue)]) return queue;
  return -1;
}

int SeededSchedule::pick(const Lock& lock) {
  if (random_() % kPicksPerRedraw == 0) draw_priorities();
  int best = -1;
  unsigned best_priority = 0;
  for (int queue = 0; queue < tasks_.count(); ++queue) {
    const unsigned priority = priorities_[static_cast<std::size_t>(queue)];
    if (priority < kStarvedBelow || priority <= best_priority || !tasks_.is_ready(lock, queue)) continue;
    best = queue;
    best_priority = priority;
  }
  if (best >= 0) return best;
  const int queue = awaited_queue(lock);
  if (queue < 0) return -1;
  tasks_.expect_progress(lock, queue);
  return tasks_.first_to_run(lock, queue);
}

void SeededSchedule::work() {
  Lock lock = tasks_.lock();
  for (;;) {
    has_work_.wait(lock, [&] { return closing_ || has_reason(lock); });
    if (closing_) return;
    busy_ = true;
    while (has_reason(lock)) {
      const int queue = pick(lock);
      if (queue < 0) {
        budget_ = 0;
        break;
      }
      if (budget_ > 0) --budget_;
      tasks_.run_head(lock, queue);
    }
    busy_ = false;
    tasks_.wake();
  }
}

}  // namespace tensorpager::fake_cuda
