// Plans of several classes of windows under one boundary table (boundary_table.h), and its files.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tensorpager/base/result.h"
#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/online.h"
#include "tensorpager/plan/planner.h"

namespace tensorpager::plan {

/// What a plan has over its window's end, of storages with an identity: stacked from the bottom.
BoundaryTable boundary_of(const trace::Trace& trace, const Plan& plan);

/// The first half of the entries: what is used late in the next window is left out.
BoundaryTable half_of(const BoundaryTable& table);

/// Of each storage of the trace, where the table has it. Throws InvalidArgument where the trace lacks one of its
/// storages, or has it with other bytes.
Boundary offsets_in(const BoundaryTable& table, const trace::Trace& trace);

struct ClassPlans {
  BoundaryTable table = {};
  std::vector<Plan> plans = {};  // one of each problem
};

/// Plans of several classes under one table: that of the hardest, whose need is the most for its budget. The table is
/// halved where a class does not place with it. The error is that of the first class that has no plan at all.
base::Result<ClassPlans, Infeasible> plan_classes(const std::vector<Problem>& problems);

/// Text files (docs/formats.md). Reading throws InvalidArgument with file, line and field.
BoundaryTable read_boundary(std::istream& in, const std::string& path);
BoundaryTable read_boundary_file(const std::string& path);
std::string write_boundary(const BoundaryTable& table);

}  // namespace tensorpager::plan
