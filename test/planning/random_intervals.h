// Intervals to pack, made from a seed, in a window of 40 ops of a microsecond each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

inline constexpr std::uint32_t kOps = 40;

inline const std::vector<Nanoseconds> kStarts = [] {
  std::vector<Nanoseconds> starts;
  for (std::uint32_t op = 0; op <= kOps; ++op) starts.emplace_back(1000 * op);
  return starts;
}();

inline Interval block(std::int64_t begin, std::int64_t release, std::uint64_t bytes) {
  return {.bytes = bytes, .begin = begin, .need = begin, .end = release, .release = release};
}

inline bool is_there(const Interval& interval, std::int64_t op) {
  return (interval.begin <= op && op < interval.release) || op + kOps < interval.release;
}

inline std::uint64_t most_live(const std::vector<Interval>& intervals) {
  std::uint64_t most = 0;
  for (std::int64_t op = 0; op < kOps; ++op) {
    std::uint64_t live = 0;
    for (const Interval& interval : intervals) live += is_there(interval, op) ? interval.bytes : 0;
    most = std::max(most, live);
  }
  return most;
}

inline std::vector<Interval> random_intervals(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals;
  for (unsigned i = 0; i < 2 + random() % 40; ++i) {
    const std::int64_t begin = random() % kOps;
    const std::int64_t length = 1 + (random() % 4 == 0 ? random() % kOps : random() % 6);
    intervals.push_back(block(begin, begin + length, 512 * (1 + random() % 20)));
  }
  return intervals;
}

}  // namespace tensorpager::planning
