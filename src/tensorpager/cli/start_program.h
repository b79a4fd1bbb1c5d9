// What `run` and `trace` have in common: checks what can be checked, writes the options into the environment, puts the
// import hook first on Python's path, has the preload library loaded into other programs, and becomes the program.
#pragma once

#include "tensorpager/cli/command.h"
#include "tensorpager/cli/verb_options.h"

namespace tensorpager::cli {

/// Throws InvalidArgument where the program cannot be started; otherwise does not return.
[[noreturn]] void start_program(const Settings& settings, const Program& program);

}  // namespace tensorpager::cli
