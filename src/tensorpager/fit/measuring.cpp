#include "tensorpager/fit/measuring.h"

#include <algorithm>

namespace tensorpager::fit {
namespace {

constexpr int kRounds = 2;
constexpr int kMostSmaller = 3;  // each takes as long as the program runs

void run_all(const std::vector<std::uint64_t>& sizes, const std::function<double(std::uint64_t)>& run,
             PerSecond& most) {
  for (int round = 0; round < kRounds; ++round)
    for (const std::uint64_t size : sizes) {
      const double per_second = run(size);
      if (per_second > 0) most[size] = std::max(most[size], per_second);
    }
}

}  // namespace

PerSecond measure_sizes(const std::vector<std::uint64_t>& sizes, const std::function<double(std::uint64_t)>& run) {
  PerSecond most;
  run_all(sizes, run, most);
  for (int i = 0; i < kMostSmaller && !most.empty(); ++i) {
    const std::uint64_t smallest = most.begin()->first;
    if (smallest <= 1 || quickest_of(most) != smallest) break;
    run_all({smallest, smallest * 4 / 5}, run, most);
    if (most.begin()->first == smallest) break;  // the smaller one failed
  }
  return most;
}

std::uint64_t quickest_of(const PerSecond& all) {
  return std::ranges::max_element(all, {}, &PerSecond::value_type::second)->first;
}

}  // namespace tensorpager::fit
