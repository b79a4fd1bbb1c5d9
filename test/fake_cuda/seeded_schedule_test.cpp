// A seeded schedule starves queues, and so runs one far ahead of another, as a busy card does. A schedule that draws
// each kernel uniformly does not get there.
#include "tensorpager/fake_cuda/seeded_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tensorpager/base/errors.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr int kTasks = 300;  // of each of two queues
constexpr int kSeeds = 20;

/// As many kernels a call as under SeededSchedule, each from a queue that is drawn anew.
class UniformSchedule final : public Schedule {
 public:
  UniformSchedule(TaskQueues& tasks, std::uint64_t seed) : tasks_(tasks), random_(seed) {}
  void task_queued(Lock& lock, int) override {
    constexpr int kKernels[] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 4};
    for (int i = kKernels[random_() % 10]; i > 0; --i) run_any(lock);
  }
  void wait_for(Lock& lock, int queue, std::uint64_t position) override {
    while (tasks_.finished(lock, queue) < position) run_any(lock);
  }
  void let_time_pass(Lock& lock) override { run_any(lock); }
  std::string name() const override { return "uniform"; }

 private:
  void run_any(Lock& lock) {
    std::vector<int> ready;
    for (int queue = 0; queue < tasks_.count(); ++queue)
      if (tasks_.is_ready(lock, queue)) ready.push_back(queue);
    if (!ready.empty()) tasks_.run_head(lock, ready[random_() % ready.size()]);
  }

  TaskQueues& tasks_;
  std::mt19937_64 random_;
};

/// By how many tasks one of two queues that are filled alike is ahead of the other at most, over all seeds.
template <typename AnySchedule>
int longest_lead() {
  int longest = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    TaskQueues tasks(2, 2);
    AnySchedule schedule(tasks, seed);
    int done[2] = {};
    Lock lock = tasks.lock();
    for (int i = 0; i < 2 * kTasks; ++i) {
      const int queue = i % 2;
      const auto count = [&done, &longest, queue] {
        ++done[queue];
        longest = std::max(longest, std::abs(done[0] - done[1]));
      };
      tasks.push(lock, queue, {.name = "count", .kernel = count});
      schedule.task_queued(lock, queue);
    }
    schedule.wait_for(lock, 0, kTasks);
    schedule.wait_for(lock, 1, kTasks);
  }
  return longest;
}

TEST(SeededSchedule, StarvationFindsWhatAUniformOrderDoesNot) {
  constexpr int kRing = 100;  // a ring of so many slots that is refilled with no wait breaks at a longer lead
  EXPECT_LT(longest_lead<UniformSchedule>(), kRing);
  EXPECT_GT(longest_lead<SeededSchedule>(), kRing);
}

TEST(SeededSchedule, HasASeedThatIsANumber) {
  TaskQueues tasks(1, 1);
  EXPECT_EQ(make_schedule(tasks, "12", 0)->name(), "12");
  EXPECT_EQ(make_schedule(tasks, "", 0)->name(), "now");
  EXPECT_EQ(make_schedule(tasks, "late", 0)->name(), "late");
  EXPECT_EQ(make_schedule(tasks, "threads", 0)->name(), "threads");
  EXPECT_THROW(make_schedule(tasks, "12x", 0), base::InvalidArgument);
  EXPECT_THROW(make_schedule(tasks, "soon", 0), base::InvalidArgument);
}

}  // namespace
}  // namespace tensorpager::fake_cuda
