// A verb of the command line: adds its options to the application and runs when chosen. To add one: a file
// x_command.cpp and a row in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tensorpager::cli {

/// The words after `--`, unchanged: they belong to the program, and no parser of ours may touch them.
using Program = std::vector<std::string>;

/// A negative answer that is nobody's mistake: a budget is too small, or a plan is not valid. The text is one line.
class NotPossible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `run`: starts a program under a budget.
void add_run_command(CLI::App& app, const Program& program);

/// `estimate`: the memory that a program needs on a card.
void add_estimate_command(CLI::App& app, const Program& program);

/// `fit`: the batch that fits on a machine.
void add_fit_command(CLI::App& app, const Program& program);

/// `trace`: records a program.
void add_trace_command(CLI::App& app, const Program& program);

/// `doctor`: whether paging works on this machine.
void add_doctor_command(CLI::App& app, const Program& program);

/// `options`: the table of options, for the documentation.
void add_options_command(CLI::App& app, const Program& program);

/// `machine`: the machines that plans can be made for.
void add_machine_command(CLI::App& app, const Program& program);

/// Traces and plans: make, check, time, explain.
void add_plan_command(CLI::App& app, const Program& program);
void add_validate_command(CLI::App& app, const Program& program);
void add_simulate_command(CLI::App& app, const Program& program);
void add_report_command(CLI::App& app, const Program& program);

}  // namespace tensorpager::cli
