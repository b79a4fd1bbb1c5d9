// What `run` and `trace` have in common: checks what can be checked, writes the options into the environment, puts the
// import hook first on Python's path, has the preload library loaded into other programs, and becomes the program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tensorpager/cli/command.h"

namespace tensorpager::cli {

struct RunOptions {
  std::string budget, spill, link, binding, stats, fuzz, trace, trace_class, plan, plan_cache;
  std::string emulate, schedule;             // the emulated card; when its kernels run
  std::string trace_device, trace_smallest;  // what is recorded
  bool quiet = false, on_demand = false, plan_sync = false, dry = false;
};

bool is_set(const char* variable);

/// --spill, --link and --binding.
void add_session_options(CLI::App& verb, RunOptions& options);

/// Throws InvalidArgument where the program cannot be started; otherwise does not return.
[[noreturn]] void start_program(const RunOptions& options, const Program& program);

}  // namespace tensorpager::cli
