#include "tensorpager/fit/measuring.h"

#include <algorithm>

namespace tensorpager::fit {
namespace {

constexpr int kRounds = 2;
constexpr double kClose = 0.9;   // of the quickest: one size differs by a tenth and more between two runs
constexpr int kMostSmaller = 3;  // each takes as long as the program runs

void run_all(const std::vector<std::uint64_t>& sizes, const std::function<double(std::uint64_t)>& run,
             PerSecond& most) {
  for (int round = 0; round < kRounds; ++round)
    for (const std::uint64_t size : sizes) {
      const double per_second = run(size);
      if (per_second > 0) most[size] = std::max(most[size], per_second);
    }
}

std::vector<std::uint64_t> close_to_quickest(const PerSecond& all) {
  std::vector<std::uint64_t> close;
  if (all.empty()) return close;
  const double least = kClose * all.at(quickest_of(all));
  for (const auto& [size, per_second] : all)
    if (per_second >= least) close.push_back(size);
  return close;
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
  if (const auto close = close_to_quickest(most); close.size() > 1) run_all(close, run, most);
  return most;
}

std::uint64_t quickest_of(const PerSecond& all) {
  return std::ranges::max_element(all, {}, &PerSecond::value_type::second)->first;
}

}  // namespace tensorpager::fit
