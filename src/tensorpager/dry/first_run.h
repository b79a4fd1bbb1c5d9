// Learns what a kernel on the CPU allocates inside, and the strides that it gives its results, by running it for real
// the first time that a signature is met. Only kernels that are done in a moment: programs small enough to be run for
// real come out exact, and of large ones only temporaries of the CPU's kernels are missed.
#pragma once

#include "tensorpager/dry/dry.h"
#include "tensorpager/dry/outcome.h"

namespace tensorpager::dry {

/// Seconds that a kernel takes on one core, within a factor of a few.
double estimated_seconds(const Call& call, std::size_t argument_bytes);

class FirstRuns {
 public:
  explicit FirstRuns(const Options& options) : options_(options) {}

  /// Runs the kernel if it is small enough and its arguments' values do not stop it; then the call's stack holds the
  /// results, and `outcome` tells of the kernel. Returns false if it does not; then nothing was changed but maybe
  /// values of what it writes.
  bool run(const Call& call, std::size_t argument_bytes, Outcome& outcome);

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  const Options& options_;
  std::atomic<double> seconds_{0};  // estimated, of all so far
  std::atomic<std::uint64_t> count_{0};
};

/// Allocates and frees as much as the kernel's temporaries took.
void replay_temporaries(const Outcome& outcome);

}  // namespace tensorpager::dry
