// Variations of a planned window: ops are inserted, left out, or make larger storages.
#pragma once

#include <cstddef>
#include <random>

#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

struct Missed {
  trace::Trace window;  // storages of the planned window keep their numbers
  std::size_t inserted = 0;
  std::size_t left_out = 0;
  std::size_t grown = 0;
};

/// Changes a share of the ops, chosen at random; a third of them each is inserted, left out or grown. An inserted op
/// reads one or two live storages, sometimes writes one of them, and makes one that lives for 1 to 50 ops. The storages
/// of an op that is left out have no bytes; those of a grown op are a quarter larger. Ops that make or free what is
/// alive at the window's begin stay as they are, and so do the first and the last.
Missed with_misses(const trace::Trace& planned, double share, std::mt19937& random);

}  // namespace tensorpager::sim
