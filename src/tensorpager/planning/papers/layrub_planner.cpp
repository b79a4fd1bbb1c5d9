// Liu, Jiang, Jin, Shi, Ma: Layer-Centric Memory Reuse and Data Migration for Extreme-Scale Deep Learning on Many-Core
// Architectures (Layrub), 2018: the inter-layer strategy.
//
// Every feature map goes to the host when the forward pass has used it for the last time, and returns for the backward
// pass one layer ahead. There is no budget to choose by. The intra-layer strategy, by which a gradient takes the space
// of its feature map, needs other kernels, and is not here.
#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"

namespace tensorpager::planning {
namespace {

class LayrubPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "layrub");
    Decisions decisions{.page_ins = PageIns::kOneAhead};
    for (const FeatureMap& map : feature_maps(problem.trace, Liveness(problem.trace))) decisions.page_out(map);
    return Completion(problem, decisions).plan("layrub");
  }
};

}  // namespace

std::unique_ptr<Planner> make_layrub_planner() { return std::make_unique<LayrubPlanner>(); }

}  // namespace tensorpager::planning
