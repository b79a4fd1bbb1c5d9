// Runs a program dry at two sizes, scales the traces between and beyond, plans for the sizes that matter, and checks
// the answer by one more dry run.
#pragma once

#include <cstdint>
#include <string>

#include "tensorpager/cli/command.h"
#include "tensorpager/cli/fit_screen.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::cli {

struct FitOptions {
  std::string machine, budget;
  std::string planner;                                                      // empty: as sessions plan on such a machine
  double overhead = 10, link_share = 100 * planning::Options().link_share;  // percent
  std::uint64_t from = 16, to = fit::Question().most_size;
  unsigned steps = 0;  // real ones, for the gradient noise scale; 0: none
  std::uint32_t ranks = 1;
  std::string interconnect;   // empty: the rate of the machine's link
  std::string learning_rate;  // LR@SIZE; empty: none is asked for
  std::string output;         // .svg or .html; empty: none
  bool json = false, verbose = false;
};

/// Says on standard error what it does, unless it is to print JSON. Throws InvalidArgument for wrong options, and
/// NotPossible if the program's steps have no answer.
FitAnswer run_fit(const FitOptions& options, const Program& program);

}  // namespace tensorpager::cli
