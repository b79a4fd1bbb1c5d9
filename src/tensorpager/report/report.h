// Reports that explain a plan: what holds memory at the peak, where compute waits, what the most expensive decisions
// are, and what the alternatives would have taken.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/plan/rewriting.h"

namespace tensorpager::report {

/// What it would take to rebuild a storage between two of its uses, if nothing else is dropped. Ops and storages are
/// those of the program's window.
struct Rebuild {
  plan::StorageId storage;
  std::uint32_t from;
  std::uint32_t to;
  machine::Nanoseconds cost;
};

/// The input of a report. The plan is valid for the window; `stalls` are those when it is followed on `machine`.
struct Subject {
  const plan::Rewriting& window;  // with the plan's replays
  const plan::Plan& plan;
  const machine::Machine& machine;
  const plan::Liveness& liveness;  // of window.trace
  const plan::Prediction& measured;
  const std::vector<plan::Stall>& stalls;
  const std::vector<Rebuild>& rebuilds;  // a storage cannot be rebuilt where this has nothing
};

/// Lines have at most 120 characters, except for long names.
std::string write_text(const Subject& subject);

/// A graph of live and charged bytes over the ops, with a line for the budget.
std::string write_svg(const Subject& subject);

}  // namespace tensorpager::report
