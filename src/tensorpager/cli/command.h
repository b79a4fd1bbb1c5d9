// A verb of the command line: adds its options to the application and runs when chosen. To add one: a file
// x_command.cpp and a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace tensorpager::cli {

/// `run`: starts a program under a budget.
void add_run_command(CLI::App& app);

}  // namespace tensorpager::cli
