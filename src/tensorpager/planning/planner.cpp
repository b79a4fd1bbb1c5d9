#include "tensorpager/planning/planner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/papers/papers.h"

namespace tensorpager::planning {
namespace {

constexpr std::array kPlanners = {std::pair{"pages", &make_pages_planner},
                                  std::pair{"hybrid", &make_hybrid_planner},
                                  std::pair{"recompute", &make_recompute_planner},
                                  std::pair{"recompute_all", &make_recompute_all_planner},
                                  std::pair{"lru", &make_lru_planner},
                                  std::pair{"resident", &make_resident_planner},
                                  std::pair{"meng", &make_meng_planner},
                                  std::pair{"vdnn", &make_vdnn_planner},
                                  std::pair{"vdnnpp", &make_vdnnpp_planner},
                                  std::pair{"accudnn", &make_accudnn_planner},
                                  std::pair{"layrub", &make_layrub_planner},
                                  std::pair{"sqrt", &make_sqrt_planner},
                                  std::pair{"dtr", &make_dtr_planner},
                                  std::pair{"monet", &make_monet_planner},
                                  std::pair{"capuchin", &make_capuchin_planner}};

}  // namespace

std::unique_ptr<Planner> make_planner(const std::string& name) {
  std::string all;
  for (const auto& [candidate, make] : kPlanners) {
    if (name == candidate) return make();
    all += std::string(all.empty() ? "" : ", ") + candidate;
  }
  throw base::InvalidArgument("'" + name + "' is no planner; write one of " + all);
}

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  names.reserve(kPlanners.size());
  for (const auto& [name, make] : kPlanners) names.emplace_back(name);
  return names;
}

void require_no_boundary(const Problem& problem, const char* planner) {
  if (problem.boundary != nullptr)
    throw base::InvalidArgument(std::string("planner '") + planner + "' takes no boundary table; use pages");
}

Groundwork::Groundwork(const Problem& of)
    : problem(of), liveness(of.trace), op_times(plan::op_times(of.trace, of.machine)), starts(1) {
  for (const Nanoseconds time : op_times) starts.push_back(starts.back() + time);
  if (is_below_floor()) return;
  // Unplanned blocks are only possible, the floor is certain: the reserve takes at most half of what the budget has
  // above the floor.
  const double wanted = of.options.reserve * static_cast<double>(of.budget.count());
  const std::uint64_t spare = (of.budget - liveness.floor()).count() / 2;
  const std::uint64_t granule = of.trace.granule.count();
  reserve = base::Bytes(std::min(static_cast<std::uint64_t>(wanted), spare) / granule * granule);
}

Plan Groundwork::finish(std::string planner, std::vector<Row> rows, Technique technique) const {
  Plan plan{.planner = std::move(planner),
            .technique = technique,
            .machine = problem.machine.name,
            .budget = problem.budget,
            .slab = liveness.slab(),
            .reserve = reserve,
            .ops = liveness.ops(),
            .shared_boundary = problem.boundary != nullptr,
            .rows = std::move(rows)};
  plan.predicted = predict(plan, op_times, problem.machine);
  return plan;
}

}  // namespace tensorpager::planning
