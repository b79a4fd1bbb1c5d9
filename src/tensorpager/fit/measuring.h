// Which size is the quickest by real runs: a simulation leaves out what transfers take of ops beside them, and that
// small tensors may stay in a CPU's caches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace tensorpager::fit {

using PerSecond = std::map<std::uint64_t, double>;  // of the argument's size, by size

/// Runs all sizes in turn, twice: the quicker run counts, as other work on the machine only slows. While the smallest
/// is the quickest, and at most three times, one of four fifths of it is run, too, in turn with it. Last, all sizes
/// within a tenth of the quickest run twice more. `run` returns what a run did a second, 0 if the run failed; a size of
/// which all runs failed is left out.
PerSecond measure_sizes(const std::vector<std::uint64_t>& sizes, const std::function<double(std::uint64_t size)>& run);

/// `all` must not be empty.
std::uint64_t quickest_of(const PerSecond& all);

}  // namespace tensorpager::fit
