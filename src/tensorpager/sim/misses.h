// Windows that are not quite those that were planned for: ops that are inserted, left out, or make larger storages.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

/// One op that a program runs: one of the trace, or one that the trace has not.
struct Step {
  std::uint32_t op = 0;                       // of the trace; of an inserted one: that which follows
  bool inserted = false;                      // else it is the trace's
  bool left_out = false;                      // the program does not run it
  bool grown = false;                         // what it makes is a quarter larger than the trace says
  std::vector<trace::StorageId> reads = {};   // of an inserted one
  std::vector<trace::StorageId> writes = {};  // of an inserted one
  base::Bytes made = {};                      // by an inserted one
  std::uint32_t life = 0;                     // of that, in ops
  bool is_miss() const { return inserted || left_out || grown; }
};

/// The window as it was planned for.
std::vector<Step> steps_of(const trace::Trace& trace);

/// A share of the ops, chosen at random, is inserted, left out or grown, a third of them each. An inserted op reads two
/// live storages, writes one of them now and then, and makes one that lives for 1 to 50 ops.
std::vector<Step> with_misses(const trace::Trace& trace, double share, std::mt19937& random);

}  // namespace tensorpager::sim
