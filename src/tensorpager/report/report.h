// A plan explained to a person: who holds memory at the peak, where compute waits, what its most expensive decisions
// are and why.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::report {

/// What a report reads. The plan is valid for the trace; `stalls` are those of following it on `machine`.
struct Subject {
  const trace::Trace& trace;
  const plan::Plan& plan;
  const machine::Machine& machine;
  const plan::Liveness& liveness;
  const plan::Prediction& measured;
  const std::vector<plan::Stall>& stalls;
};

/// Lines of at most 120 characters, but for long names.
std::string write_text(const Subject& subject);

/// The bytes that are live and the bytes that are charged, over the ops, under the line of the budget.
std::string write_svg(const Subject& subject);

}  // namespace tensorpager::report
