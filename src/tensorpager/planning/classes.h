// Plans of several classes of windows under one boundary table.
#pragma once

#include <vector>

#include "tensorpager/base/result.h"
#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/planning/names.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {

struct ClassPlans {
  BoundaryTable table = {};
  std::vector<Plan> plans = {};  // one of each problem
};

/// Plans of several classes under one table: that of the hardest, whose need is the most for its budget. The table is
/// halved where a class does not place with it. The error is that of the first class that has no plan at all.
base::Result<ClassPlans, Infeasible> plan_classes(const std::vector<Problem>& problems);

}  // namespace tensorpager::planning
