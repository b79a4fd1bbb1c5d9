// Data-parallel training, simulated: ranks make the same step with samples of their own, and average their gradients
// by a ring all-reduce while the backward pass goes on, as torch's DistributedDataParallel does.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

using machine::Nanoseconds;

/// When the ops of a window run, without what other ranks do.
struct Clock {
  std::vector<Nanoseconds> starts, ends;  // by op of the program
  Nanoseconds step{0};
};

/// With all storages resident.
Clock clock_of(const trace::Trace& trace, const machine::Machine& machine);
/// Under a plan that is valid for the trace.
Clock clock_of(const trace::Trace& trace, const machine::Machine& machine, const plan::Plan& plan);

struct Ranks {
  std::uint32_t count = 1;
  double bytes_per_second = 0;                          // of each rank's link to the next, each way
  Nanoseconds latency = std::chrono::microseconds(10);  // of each of the steps of a ring
};

/// What an all-reduce of so many bytes takes in a ring: 2 (n - 1) steps, each of which moves 1/n of the bytes
/// (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009).
Nanoseconds all_reduce_time(base::Bytes bytes, const Ranks& ranks);

struct Reduction {
  base::Bytes gradients;  // as many bytes are held once more, in buckets
  std::uint32_t buckets = 0;
  Nanoseconds transfers{0};  // the sum
  Nanoseconds exposed{0};    // by which the optimizer begins later than for one rank
  Nanoseconds step{0};       // with it

  /// Of a rank, against what it does alone.
  double efficiency() const {
    return static_cast<double>((step - exposed).count()) / static_cast<double>(step.count());
  }
};

/// The bytes of the gradients: storages that the backward pass makes or writes, and an op of an optimizer uses.
base::Bytes gradient_bytes(const trace::Trace& trace);

/// Gradients go in buckets in the order in which they are ready: 1 MiB, then 25 MiB each, which are the defaults of
/// DistributedDataParallel after its first step. One bucket is on its way at a time.
Reduction reduce_gradients(const trace::Trace& trace, const Clock& clock, const Ranks& ranks);

}  // namespace tensorpager::fit
