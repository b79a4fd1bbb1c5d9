// Windows that are not quite the one that was planned for: ops are inserted, left out, or make larger storages.
#pragma once

#include <cstddef>
#include <random>

#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

struct Missed {
  trace::Trace window;  // the planned one's storages have the same numbers
  std::size_t inserted = 0;
  std::size_t left_out = 0;
  std::size_t grown = 0;
};

/// A share of the ops, chosen at random, is inserted, left out or grown, a third of them each. An inserted op reads one
/// or two live storages, writes one of them now and then, and makes one that lives for 1 to 50 ops. What an op that is
/// left out would have made has no bytes; what a grown one makes has a quarter more. Ops that make or free what is
/// alive at the window's begin stay as they are, and so do the first and the last.
Missed with_misses(const trace::Trace& planned, double share, std::mt19937& random);

}  // namespace tensorpager::sim
