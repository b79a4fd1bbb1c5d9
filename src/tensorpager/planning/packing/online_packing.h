// Packing in the order of begins, in n log n: a best-fit allocator that knows when each block is given back. Intervals
// over the window's end lie at the bottom, side by side, as all of them are resident there; what begins later may use
// their ranges in between, if it is gone in time.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

/// Offsets by number of interval, over [begin, release); the top is the largest end.
std::vector<std::uint64_t> pack_online(const std::vector<Interval>& intervals, std::uint32_t ops);

}  // namespace tensorpager::planning
