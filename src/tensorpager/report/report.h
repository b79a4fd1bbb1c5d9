// Reports that explain a plan: what holds memory at the peak, where compute waits, what the most expensive decisions
// are and why.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::report {

/// The input of a report. The plan is valid for the trace; `stalls` are those when it is followed on `machine`.
struct Subject {
  const trace::Trace& trace;
  const plan::Plan& plan;
  const machine::Machine& machine;
  const plan::Liveness& liveness;
  const plan::Prediction& measured;
  const std::vector<plan::Stall>& stalls;
};

/// Lines have at most 120 characters, except for long names.
std::string write_text(const Subject& subject);

/// A graph of live and charged bytes over the ops, with a line for the budget.
std::string write_svg(const Subject& subject);

}  // namespace tensorpager::report
