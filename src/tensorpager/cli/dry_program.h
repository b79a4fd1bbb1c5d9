// Runs a program in a child process, dry as a rule, to learn what one of its steps does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "tensorpager/cli/command.h"
#include "tensorpager/fit/noise_scale.h"

namespace tensorpager::cli {

/// A temporary directory, removed at the end of its scope, and if this process is interrupted or killed: a process of
/// its own waits for that. Throws IoError if there is none.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  int alive_ = -1;     // an end of a pipe, which is closed when this process ends
  pid_t remover_ = 0;  // the process that removes the directory then
};

struct DryRun {
  std::string card;                       // to emulate; empty: the program runs on the CPU
  std::filesystem::path trace;            // file that gets the trace of a step
  std::filesystem::path stats;            // file that gets the statistics
  std::filesystem::path log;              // file that gets what the program prints; empty: it is shown
  base::Bytes budget = base::kUnlimited;  // of a dry run: that calls on whole lists are divided for
  bool dry = true;                        // else it computes, to its own end, and the trace has the times of ops
  std::chrono::seconds longer{0};         // for which a dry run goes on after a step has repeated
  bool all_storages = true;               // else those that are paged, and ops on them
};

/// Of dry runs that tell what plain torch reserves, of which an evaluation after the steps may want more than they.
constexpr std::chrono::seconds kLonger{5};

/// Throws NotPossible with the program's last lines if it wrote no trace. `what` is missing then: `estimate`.
void run_dry(const DryRun& run, const Program& program, const char* what);

/// What torch's allocator for the emulated card did in a dry run. Throws IoError if the statistics cannot be read.
struct TorchMemory {
  base::Bytes most_allocated, most_reserved;
};
TorchMemory torch_memory_of(const DryRun& run);

struct RealSteps {
  std::string card;                 // to emulate; empty: the program runs on the CPU
  unsigned steps;                   // after which the program is ended
  std::filesystem::path gradients;  // file that gets what is known of them
  std::filesystem::path log;        // file that gets what the program prints; empty: it is shown
};

/// Runs the program to its end under a budget, with plans. Returns the wall time of a step under them, or nullopt if it
/// failed or tells of no steps.
std::optional<std::chrono::duration<double>> step_under_plans(base::Bytes budget, const std::filesystem::path& stats,
                                                              const std::filesystem::path& log, const Program& program);

/// Runs the program with all its numbers. Throws NotPossible with its last lines if it did fewer than 3 steps.
fit::Gradients gradients_of(const RealSteps& run, const Program& program);

}  // namespace tensorpager::cli
