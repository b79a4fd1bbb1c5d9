// A verb of the command line: adds its options to the application and runs when chosen. To add one: a file
// x_command.cpp and a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tensorpager::cli {

/// The words after `--`, as they are: they belong to the program, and no parser of ours may touch them.
using Program = std::vector<std::string>;

/// `run`: starts a program under a budget.
void add_run_command(CLI::App& app, const Program& program);

/// `doctor`: what works on this machine.
void add_doctor_command(CLI::App& app, const Program& program);

}  // namespace tensorpager::cli
