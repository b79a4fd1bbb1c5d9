// The common part of `run` and `trace`: checks what can be checked, writes the options into the environment, puts the
// import hook first on Python's path, adds the preload library for other programs, and executes the program.
#pragma once

#include "tensorpager/cli/command.h"
#include "tensorpager/cli/verb_options.h"

namespace tensorpager::cli {

/// Throws InvalidArgument if there is no such program, by its path or on the PATH. Call it before files of an earlier
/// run are replaced.
void require_program(const std::string& name);

/// Throws InvalidArgument if the program cannot be started; otherwise does not return.
[[noreturn]] void start_program(const Settings& settings, const Program& program);

}  // namespace tensorpager::cli
