// A verb of the command line: adds its options to the application and runs when chosen. To add one: a file
// x_command.cpp and a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "generated/install_layout.h"

namespace tensorpager::cli {

/// The words after `--`, as they are: they belong to the program, and no parser of ours may touch them.
using Program = std::vector<std::string>;

/// site-packages/tensorpager, seen from where this program is installed. The C++ parts are in it, as torch's are in
/// its.
inline std::filesystem::path python_package() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / TENSORPAGER_SITE / "tensorpager";
}

/// `run`: starts a program under a budget.
void add_run_command(CLI::App& app, const Program& program);

}  // namespace tensorpager::cli
