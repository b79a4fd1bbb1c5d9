// The simulated cost of budgets below the need, and the smallest budget that costs next to nothing.
#pragma once

#include <optional>

#include "tensorpager/base/bytes.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::fit {

struct Cost {
  base::Bytes budget;
  machine::Nanoseconds step{0};
  double overhead = 0;  // step over compute, minus 1
  base::Bytes page_out, page_in;
  base::Bytes on_host = {};  // the most at once; on a card it is pinned memory
};

/// `liveness` is the trace's. Returns nullopt if no plan of the planner fits into the budget.
std::optional<Cost> cost_of(const trace::Trace& trace, const plan::Liveness& liveness, const machine::Machine& machine,
                            base::Bytes budget, const planning::Planner& planner = *planning::make_pages_planner(),
                            const planning::Options& options = {});

/// Returns the smallest budget whose plan costs at most `overhead`, to 1/32 of the distance from floor to need, or the
/// need itself if no smaller one does. After `most_plans` plans it returns the smallest found.
Cost cheapest_within(const trace::Trace& trace, const machine::Machine& machine, double overhead, unsigned most_plans,
                     const planning::Planner& planner = *planning::make_pages_planner(),
                     const planning::Options& options = {});

}  // namespace tensorpager::fit
