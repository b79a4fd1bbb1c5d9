// Runs a training program in seconds so that its trace can be recorded: kernels of ops on large tensors are skipped,
// and their results have the right sizes, strides and bytes but stand-ins for values. All else runs for real, above all
// what programs steer themselves by: integers, small tensors, random draws.
//
// The skipper is a fallback on the dispatch key Fake, which nothing in torch uses. It lies below autograd, autocast and
// the key on which ops are recorded, and above the backends: it sees each call that would reach a kernel, and the ops
// that a program calls, their storages and their order stay those of the real run.
//
// What stands in for values: 1 in small floating results, what memory holds in large ones, 0 in integer results, and in
// bool results what the op gives for tensors of ones. A program whose course depends on computed values takes the
// course that it takes for those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorpager/dry/allocation_observer.h"

namespace tensorpager::dry {

struct Options {
  /// An op is skipped if it has a floating or complex argument of at least so many bytes. As the least size of a paged
  /// storage, so that what is recorded is mostly skipped.
  std::size_t least_bytes = std::size_t{16} << 10;
  /// Random ops on at most so many elements draw for real, so that the generator moves as in a real run.
  std::int64_t most_random = std::int64_t{16} << 20;
  /// A kernel on the CPU is run the first time that a signature is met, to see what it allocates, if its tensors take
  /// at most so many bytes and it is estimated to take at most so many seconds; all first runs together at most so
  /// many.
  std::size_t first_run_bytes = std::size_t{64} << 20;
  double first_run_seconds = 0.1;
  double first_runs_seconds = 5;
  /// A bool tensor of at least so many bytes is taken for one that a skipped op made, all of whose elements are as its
  /// first, and ops on it are skipped too. Below, masks are computed for real.
  std::size_t least_constant_bools = std::size_t{16} << 20;
  /// Integer results up to this size are set to zero. Larger ones are left as their pages are: fresh ones are zero.
  std::size_t most_zeroed_bytes = std::size_t{64} << 20;
};

/// Registers the skipper, once in a process: it stays until the process ends. Threads must enter. With
/// TENSORPAGER_DRY_FIRST_RUNS=0 in the environment no kernel is run to see what it allocates: for tests of shapes.
void install(const Options& options);

/// Skips ops of this thread from now on. Cheap if the thread has entered before. Threads that torch's autograd starts,
/// and forked children, inherit it.
void enter_thread();

/// One line for people: how many ops were skipped and run, and warnings. Empty if nothing is installed.
std::string report();

}  // namespace tensorpager::dry
