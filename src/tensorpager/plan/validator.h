// Whether a plan is right for a trace. Naive on purpose: it walks the ops of two windows with a map of what lies where,
// and shares no code with planners. It asks nothing about time.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

/// One line each, at most a hundred; empty where the plan is right:
/// - every op finds what it uses resident, at an offset that nothing else has, also no page-out that was not waited
/// for;
/// - what leaves without a copy is dead, or the same bytes are below; what is paged in was paged out before;
/// - the charged bytes stay within the budget, and below slab and reserve;
/// - the window ends as it began; where the plan shares a boundary, what comes from it is taken for dirty.
std::vector<std::string> validate(const trace::Trace& trace, const Plan& plan);

/// Whether the plan begins and ends with the boundary table, storage by storage.
std::vector<std::string> validate_boundary(const trace::Trace& trace, const Plan& plan, const BoundaryTable& table);

}  // namespace tensorpager::plan
