// Checks whether a plan is valid for a trace. Naive on purpose: it walks the ops of two windows with a map of what lies
// where, and shares no code with planners. It does not check times.
#pragma once

#include <string>
#include <vector>

#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::plan {

/// Returns the violations, one line each, at most a hundred; empty if the plan is valid:
/// - its replays are possible (rewriting.h), and the rest holds for the trace rewritten with them;
/// - each op finds its storages resident, at an offset that overlaps no other block and no page-out that was not waited
///   for;
/// - what leaves without a copy is dead, or the tier holds the same bytes; what is paged in was paged out before;
/// - the charged bytes stay within the budget, and below slab and reserve;
/// - the window ends as it began; if the plan shares a boundary, what comes from it counts as dirty.
std::vector<std::string> validate(const trace::Trace& trace, const Plan& plan);

/// Returns the violations, one line each; empty if the plan begins and ends as the boundary table says.
std::vector<std::string> validate_boundary(const trace::Trace& trace, const Plan& plan, const BoundaryTable& table);

}  // namespace tensorpager::plan
