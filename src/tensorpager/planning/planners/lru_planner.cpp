// What a pager without a plan does: a baseline. The least recently used storage is paged out where an op needs room,
// and compute waits for it and for the page-ins that follow.
#include "tensorpager/planning/online.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/planning/schedule.h"

namespace tensorpager::planning {
namespace {

class LruPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "lru");
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    const OnlinePlacement placed =
        place_online(groundwork.liveness, groundwork.space(), problem.trace.granule, Victim::kLeastRecentlyUsed);
    std::vector<Row> rows = make_rows(placed.intervals, groundwork.liveness.ops());
    wait_by_offsets(rows, groundwork.liveness.ops());
    return groundwork.finish("lru", std::move(rows));
  }
};

}  // namespace

std::unique_ptr<Planner> make_lru_planner() { return std::make_unique<LruPlanner>(); }

}  // namespace tensorpager::planning
