// The settings of a session. Each field is read from an environment variable, which child processes inherit; options.h
// has the table. The texts are read in the process whose session begins, so a launcher's `40%` is a share of the memory
// that each rank sees.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/link.h"

namespace tensorpager::base {

/// Blocks below this size are charged but never evicted (Note [R3 small blocks] in docs/notes.md): they hold metadata
/// that C++ code reads without an op (RNG state, batch sizes), and evicting them gains nothing.
inline constexpr Bytes kMinPagedBytes = 16_KiB;

/// Where a block is put when it is paged in: at its old address, or anywhere in one arena.
enum class BindingKind : std::uint8_t { kStable, kRebinding };

/// Whose memory is charged and paged, or recorded.
enum class Device : std::uint8_t { kHost, kCuda };
constexpr const char* to_string(Device device) { return device == Device::kCuda ? "cuda" : "cpu"; }
/// Blocks begin at multiples of it, and are rounded up to it. Kernels choose their ways by the alignment of addresses,
/// so it is part of the bits; CUDA's is that of torch's own allocator.
constexpr Bytes granule_of(Device device) { return device == Device::kCuda ? Bytes(512) : kPage; }

/// Which storages plans drop, to rebuild them by replays.
enum class Recomputation : std::uint8_t {
  kNone,
  kWhereQuicker,  // than to move them
  kEverywhere,    // all that can be rebuilt, whatever that costs: for tests
};

struct Config {
  Device device = Device::kHost;
  Bytes budget = kUnlimited;  // hard limit on charged bytes
  std::string share_of_card;  // `80%` of a CUDA device, whose size is known once CUDA is initialised: the budget then
  Bytes pinned = kUnlimited;  // limit on pinned memory for what a device pages out; the rest is pageable
  std::uint64_t local_ranks = 1;  // ranks on this machine; a budget of N% is divided by it
  std::string spill;              // a directory, or `ram`; empty: the temporary directory
  LinkRates link;                 // limits the rates of the tier
  BindingKind binding = BindingKind::kStable;
  std::string stats;                  // file that gets the statistics at exit; empty: none
  bool quiet = false;                 // no lines on standard error but errors
  std::optional<std::uint64_t> fuzz;  // seed of random evictions at every op boundary
  std::uint64_t fuzz_evictions = 2;   // tries at each boundary
  std::uint64_t fuzz_drops = 0;       // the same, of storages that replays can rebuild
  bool verify_replay = false;         // replay each op that can be, and compare
  std::string verify_replay_of;       // ops that are verified too, separated by `,`: for tests
  std::uint64_t witness_ops = 0;      // ops between two checks of our resident size with the kernel's count; 0: none
  bool plans = true;                  // false: no plans, blocks move on demand only
  std::optional<bool> recompute;      // plans may also drop storages, which replays rebuild; nullopt: on a card
  bool recompute_all = false;         // plans drop all that replays can rebuild, whatever that costs: for tests
  bool plan_sync = false;             // the program waits while plans are made, so that runs are reproducible
  std::string plan;                   // plan files to follow, separated by `:`; their budget applies if none is set
  std::string plan_cache;             // directory that plans are kept in and taken from; empty: none
  /// Smaller storages are not listed in a trace but counted in its slab. For host traces only. By default the smallest
  /// size that is paged; in a dry run all storages are listed.
  Bytes trace_smallest = kMinPagedBytes;
  /// Kernels on large tensors are skipped, and memory costs nothing before it is touched. The program is ended once one
  /// of its steps has repeated.
  bool dry = false;
  std::chrono::seconds dry_longer{0};  // for which a dry run goes on after a step has repeated
  bool curve = false;                  // keep the curve of live and charged bytes over ops
  std::string trace;                   // file that gets the trace of a window at exit; empty: no trace is written
  /// The class of windows that is written: 1 makes up most of the run, 0 (`step`) is that of training steps. 1 by
  /// default, and 0 in a dry run, where times mean nothing.
  std::uint64_t trace_class = 1;

  /// A card computes far faster than its link moves what it computes.
  Recomputation recomputation() const {
    if (recompute_all) return Recomputation::kEverywhere;
    return recompute.value_or(device == Device::kCuda) ? Recomputation::kWhereQuicker : Recomputation::kNone;
  }
};

/// Looks a variable up: `std::getenv` in a program, a table in a test.
using Environment = std::function<const char*(const char*)>;

/// The variables that are set, over the defaults. Throws InvalidArgument naming the variable and its text.
Config read_config(const Environment& environment);

/// The directory that page-outs go to when none is given: TMPDIR, else /tmp.
std::string default_spill_directory(const Environment& environment);

}  // namespace tensorpager::base
