#include "tensorpager/fake_cuda/schedule.h"

#include <charconv>

#include "tensorpager/base/errors.h"
#include "tensorpager/fake_cuda/at_once_schedule.h"
#include "tensorpager/fake_cuda/late_schedule.h"
#include "tensorpager/fake_cuda/seeded_schedule.h"
#include "tensorpager/fake_cuda/thread_schedule.h"

namespace tensorpager::fake_cuda {

std::unique_ptr<Schedule> make_schedule(TaskQueues& tasks, std::string_view text, long delay_us) {
  if (text.empty() || text == "now") return std::make_unique<AtOnceSchedule>(tasks);
  if (text == "late") return std::make_unique<LateSchedule>(tasks);
  if (text == "threads") return std::make_unique<ThreadSchedule>(tasks, delay_us);
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw base::InvalidArgument("TENSORPAGER_EMULATE_SEED=" + std::string(text) +
                                " is no schedule; try now, late, threads, or a number");
  return std::make_unique<SeededSchedule>(tasks, seed);
}

}  // namespace tensorpager::fake_cuda
