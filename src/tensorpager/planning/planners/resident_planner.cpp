// Nothing is ever evicted: the plan without paging, which needs a budget of need, or a little more.
#include <algorithm>

#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {
namespace {

class ResidentPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "resident");
    Groundwork groundwork(problem);
    const Liveness& liveness = groundwork.liveness;
    if (problem.budget < liveness.need()) return Infeasible{liveness.need() - problem.budget, liveness.need_op()};
    // All is planned for; what is left over is the reserve.
    groundwork.reserve = std::min(groundwork.reserve, problem.budget - liveness.need());
    Evictions none;
    none.after_use.assign(liveness.all_uses(), kNever);
    none.unused_resident.assign(liveness.storages(), true);
    std::vector<Interval> intervals = make_intervals(liveness, none, true);
    PackingEffort effort = problem.options.techniques.packing;
    const std::uint64_t top = pack(intervals, groundwork.starts, groundwork.space(), effort);
    const base::Bytes wanted = base::Bytes(top) + liveness.slab();
    if (wanted > problem.budget) return Infeasible{wanted - problem.budget, liveness.need_op()};
    groundwork.reserve = std::min(groundwork.reserve, problem.budget - wanted);
    return groundwork.finish("resident", make_rows(intervals, liveness.ops()));
  }
};

}  // namespace

std::unique_ptr<Planner> make_resident_planner() { return std::make_unique<ResidentPlanner>(); }

}  // namespace tensorpager::planning
