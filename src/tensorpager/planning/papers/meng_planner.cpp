// Meng, Sun, Yang, Qiu, Gu: Training Deeper Models by GPU Memory Optimization on TensorFlow, 2017 (swap-out/in).
//
// Given a threshold, the forward graph is searched in reverse topological order: maps near the loss stay, as they are
// used again soon, and those that are idle for longest are swapped. A map is freed when its copy is out; it is swapped
// in as late as still overlaps. Parameters stay. Here the threshold is the largest with which the window fits. Their
// critical paths become the one order in which the ops ran.
#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"

namespace tensorpager::planning {
namespace {

class MengPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "meng");
    const std::vector<FeatureMap> maps = feature_maps(problem.trace, Liveness(problem.trace));
    return plan_with_first(problem, "meng", maps.size(), [&](std::size_t swapped) {
      Decisions decisions;
      for (std::size_t i = 0; i < swapped; ++i) decisions.page_out(maps[i]);
      return decisions;
    });
  }
};

}  // namespace

std::unique_ptr<Planner> make_meng_planner() { return std::make_unique<MengPlanner>(); }

}  // namespace tensorpager::planning
