// What `run` and `trace` have in common: checks what can be checked, writes the options into the environment, puts the
// import hook first on Python's path, has the preload library loaded into other programs, and becomes the program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tensorpager/cli/command.h"

namespace tensorpager::cli {

struct RunOptions {
  std::string budget, spill, link, binding, stats, fuzz, trace, trace_class, plan, plan_cache;
  bool quiet = false, on_demand = false, plan_sync = false;
};

/// --spill, --link and --binding.
void add_session_options(CLI::App& verb, RunOptions& options);

/// Throws InvalidArgument where the program cannot be started; otherwise does not return.
[[noreturn]] void start_program(const RunOptions& options, const Program& program);

}  // namespace tensorpager::cli
