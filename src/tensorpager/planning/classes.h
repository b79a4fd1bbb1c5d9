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
  std::vector<Plan> plans = {};  // one for each problem
};

/// Makes the plans of several classes under one table: that of the hardest class, whose need is the largest for its
/// budget. If a class does not place with the table, the table is halved. The error is that of the first class that has
/// no plan at all. `planner`: see make_planner; the table is that of `pages`.
base::Result<ClassPlans, Infeasible> plan_classes(const std::vector<Problem>& problems,
                                                  const std::string& planner = "pages");

}  // namespace tensorpager::planning
