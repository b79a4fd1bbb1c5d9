#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/python_package.h"

namespace {

constexpr int kNotPossible = 1;
constexpr int kWrongUsage = 2;

using tensorpager::cli::Program;

constexpr void (*kVerbs[])(CLI::App&, const Program&) = {
    &tensorpager::cli::add_run_command,      &tensorpager::cli::add_trace_command,
    &tensorpager::cli::add_doctor_command,   &tensorpager::cli::add_machine_command,
    &tensorpager::cli::add_plan_command,     &tensorpager::cli::add_validate_command,
    &tensorpager::cli::add_simulate_command, &tensorpager::cli::add_report_command,
    &tensorpager::cli::add_estimate_command, &tensorpager::cli::add_fit_command,
    &tensorpager::cli::add_options_command};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Virtual memory for PyTorch training.", "tensorpager");
  app.set_version_flag("--version", "tensorpager " TENSORPAGER_VERSION);
  app.add_flag_callback(
      "--cmake-dir", [] { throw CLI::CallForVersion((tensorpager::cli::python_package() / "cmake").string(), 0); },
      "Print where the CMake package for C++ programs is, for -DTensorpager_DIR=");
  app.require_subcommand(1);
  char** const end = argv + argc;
  char** const separator = std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  const Program program(separator == end ? end : separator + 1, end);
  for (const auto add_verb : kVerbs) add_verb(app, program);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    if (error.get_name() == "RuntimeError") return error.get_exit_code();  // the verb has printed its message already
    std::fprintf(stderr, "tensorpager: %s; see `tensorpager --help`\n", error.what());
    return kWrongUsage;
  } catch (const tensorpager::base::InvalidArgument& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what());
    return kWrongUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensorpager: %s\n", error.what());
    return kNotPossible;
  }
  return 0;
}
