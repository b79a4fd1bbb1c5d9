// Every tunable of a session. Each is also an environment variable, which child processes inherit; the command line and
// `tensorpager.enable()` write the same variables' fields.
// The texts are read in the process whose session begins, so a launcher's `40%` is a share of what each rank sees.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/link.h"

namespace tensorpager::base {

/// R3: blocks below this size are charged but never evicted; they hold metadata that C++ code reads without an op (RNG
/// state, batch sizes), and evicting them gains nothing. FACTS measured the cures at 4 KiB and 5056 B.
inline constexpr Bytes kMinPagedBytes = 16_KiB;

/// How a block that comes back is put under its storage: where it was, or anywhere in one arena.
enum class BindingKind : std::uint8_t { kStable, kRebinding };

enum class TraceDevice : std::uint8_t { kHost, kCuda };

struct Config {
  Bytes budget = kUnlimited;      // TENSORPAGER_BUDGET: hard limit on charged bytes
  std::uint64_t local_ranks = 1;  // LOCAL_WORLD_SIZE: ranks on this machine; a budget of N% is divided by it
  std::string spill;              // TENSORPAGER_SPILL: a directory, or `ram`; empty: the temporary directory
  LinkRates link;                 // TENSORPAGER_LINK: the tier is no faster than this
  BindingKind binding = BindingKind::kStable;  // TENSORPAGER_BINDING: stable or rebinding
  std::string stats;                           // TENSORPAGER_STATS: file that gets the statistics at exit; empty: none
  bool quiet = false;                          // TENSORPAGER_QUIET=1: no line at exit
  std::optional<std::uint64_t> fuzz;           // TENSORPAGER_FUZZ: seed of random evictions at every op boundary
  std::uint64_t fuzz_evictions = 2;            // TENSORPAGER_FUZZ_EVICTIONS: tries at each boundary
  std::uint64_t witness_ops =
      0;                   // TENSORPAGER_WITNESS: every so many ops, ask the kernel for our resident size; 0: never
  bool plans = true;       // TENSORPAGER_ON_DEMAND=1: false; nothing moves before its use
  bool plan_sync = false;  // TENSORPAGER_PLAN_SYNC=1: the program waits while it is planned, so that runs are alike
  /// TENSORPAGER_PLAN: plan files to follow from the first op on, separated by `:`; none: empty. Where the budget is
  /// unlimited, theirs holds.
  std::string plan;
  /// TENSORPAGER_PLAN_CACHE: a directory that plans are kept in for later runs, and taken from; none: empty.
  std::string plan_cache;
  /// TENSORPAGER_TRACE_DEVICE: whose storages are recorded, the host's or those of the CUDA device.
  TraceDevice trace_device = TraceDevice::kHost;
  /// TENSORPAGER_TRACE_SMALLEST: storages below this size are no storages of a trace, but part of its slab. Host only.
  /// Default: as they are paged, from 16 KiB on; of a dry run all.
  Bytes trace_smallest = kMinPagedBytes;
  /// TENSORPAGER_DRY=1: kernels on large tensors are skipped, and memory costs nothing before it is touched. The
  /// program ends once a step of it has repeated.
  bool dry = false;
  bool dry_to_end = false;  // TENSORPAGER_DRY_TO_END=1: a dry run goes on to the program's own end
  bool curve = false;       // TENSORPAGER_CURVE=1: keep the curve of live and charged bytes over ops
  std::string trace;  // TENSORPAGER_TRACE: file that gets the trace of a window at exit; empty: nothing is recorded
  /// TENSORPAGER_TRACE_CLASS: of which class of windows; the first makes up most of the run, 0 (`step`) is that of
  /// training steps. Default: 1, and `step` of a dry run, in which times say nothing.
  std::uint64_t trace_class = 1;
};

/// Looks a variable up: `std::getenv` in a program, a table in a test.
using Environment = std::function<const char*(const char*)>;

/// The variables that are set, over the defaults. Throws InvalidArgument naming the variable and its text.
Config read_config(const Environment& environment);

/// The directory that page-outs go to when none is given: TMPDIR, else /tmp.
std::string default_spill_directory(const Environment& environment);

}  // namespace tensorpager::base
