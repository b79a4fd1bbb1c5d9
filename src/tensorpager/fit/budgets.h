// What a budget below the need would cost, as simulated, and the smallest that costs next to nothing.
#pragma once

#include <optional>

#include "tensorpager/base/bytes.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

struct Cost {
  base::Bytes budget;
  machine::Nanoseconds step{0};
  double overhead = 0;  // of the step's compute
  base::Bytes page_out, page_in;
};

/// Returns nullopt if no plan fits into the budget.
std::optional<Cost> cost_of(const trace::Trace& trace, const machine::Machine& machine, base::Bytes budget);

/// The smallest budget, to 1/32 of what lies between floor and need, whose plan costs at most `overhead`; the need
/// itself where no smaller one does. `most_plans`: planning stops there, with the smallest found.
Cost cheapest_within(const trace::Trace& trace, const machine::Machine& machine, double overhead, unsigned most_plans);

}  // namespace tensorpager::fit
