// The planner's timing model of a table of rows: compute and two links, each in order. A plan's prediction is made with
// it. The simulator computes the same independently; on random traces the two agree to the nanosecond.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

using machine::Machine;
using machine::Nanoseconds;

/// Step time over compute time, minus 1; 0 if nothing is computed.
double overhead_of(Nanoseconds step, Nanoseconds compute);

/// The time of each op on a machine.
std::vector<Nanoseconds> op_times(const trace::Trace& trace, const Machine& machine);

struct Timing {
  Nanoseconds step{0};
  std::vector<Nanoseconds> starts;         // of each op, from the window's begin; the last entry is the window's end
  std::vector<Nanoseconds> page_out_ends;  // by ticket - 1, from the window's begin; may lie in the next window

  /// The first op that starts at `time` or later, counted on into the next windows.
  std::int64_t op_after(Nanoseconds time) const;
};

/// Times the third of three windows: the first begins with idle links, and by the third their backlog repeats.
Timing time_rows(const std::vector<Row>& rows, const std::vector<Nanoseconds>& op_times, const Machine& machine);

/// By ticket - 1: the op before which a wait covers the page-out, counted on into the next window.
std::vector<std::uint32_t> release_ops(const std::vector<Row>& rows, std::uint32_t ops);

/// Computes the prediction of a plan with these rows.
Prediction predict(const Plan& plan, const std::vector<Nanoseconds>& op_times, const Machine& machine);

}  // namespace tensorpager::plan
