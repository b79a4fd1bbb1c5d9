// Runs a plan on a virtual clock: its rows become a pager's actions, and a machine of one compute engine and two links
// executes them for three windows. The result is that of the last one: the steady state.
//
// It shares no arithmetic with the planner's timing model; on random traces the two agree to the nanosecond and the
// byte.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

struct Outcome {
  plan::Prediction measured;                     // to compare with the plan's prediction
  std::vector<plan::Stall> stalls;               // by op
  std::vector<std::chrono::nanoseconds> starts;  // of each op and replay, from the window's begin
  std::chrono::nanoseconds handled{0};           // CPU time of transfers on the thread that computes
  std::chrono::nanoseconds stalled() const { return measured.step - measured.compute - handled; }
};

/// The plan must be valid for the trace.
Outcome simulate(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine);

}  // namespace tensorpager::sim
