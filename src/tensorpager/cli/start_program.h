// The common part of `run` and `trace`: checks what can be checked, writes the options into the environment, puts the
// import hook first on Python's path, adds the preload library for other programs, and executes the program.
#pragma once

#include "tensorpager/cli/command.h"
#include "tensorpager/cli/verb_options.h"

namespace tensorpager::cli {

/// Does all but to execute the program, and changes no file. Throws InvalidArgument if an option is wrong, or there is
/// no such program, by its path or on the PATH.
void prepare_program(const Settings& settings, const Program& program);

/// Executes a prepared program. Throws InvalidArgument if it cannot be started; otherwise does not return.
[[noreturn]] void execute_program(const Program& program);

/// Both.
[[noreturn]] void start_program(const Settings& settings, const Program& program);

}  // namespace tensorpager::cli
