// Planned movement and recomputation: for each of the best few choices of what is dropped (drop_search.h) the planner
// `pages` plans the window with its replays, and the quickest plan is taken. Dropping nothing is one of the choices.
//
// `recompute` drops and moves nothing.
#include <algorithm>
#include <optional>
#include <utility>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/drop_search.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {
namespace {

using Choice = DropSearch::Choice;

Plan with_replays(Plan plan, const char* planner, const Choice& choice) {
  plan.planner = planner;
  plan.replays = choice.replays;
  return plan;
}

/// With the links that are planned with, and with the machine's: links that keep their rate are as likely as others.
Nanoseconds step_of(const Plan& plan, const Problem& problem) {
  const Machine slower = with_link_share(problem.machine, problem.options.link_share);
  return plan.predicted.step + time_rows(plan.rows, plan::op_times(problem.trace, problem.machine), slower).step;
}

class HybridPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    auto pages = make_pages_planner()->plan(problem);
    if (!pages) return pages;
    Plan best = pages.value();
    best.planner = "hybrid";
    if (best.predicted.step <= best.predicted.compute) return best;
    Nanoseconds least = step_of(best, problem);
    const Groundwork groundwork(problem);
    for (const Choice& choice : DropSearch(groundwork, Means::kReplaysAndTransfers).run()) {
      // Offsets seldom make a plan quicker than bytes alone promise.
      if (choice.replays.empty() || choice.step >= least) continue;
      const trace::Trace rewritten = plan::rewrite(problem.trace, choice.replays).value().trace;
      const Problem inner{rewritten, problem.machine, problem.budget, problem.options, problem.boundary};
      auto found = make_pages_planner()->plan(inner);
      if (!found) continue;
      const Nanoseconds step = step_of(found.value(), inner);
      if (step >= least) continue;
      least = step;
      best = with_replays(std::move(found.value()), "hybrid", choice);
    }
    return best;
  }
};

class RecomputePlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "recompute");
    const Groundwork groundwork(problem);
    base::Result<Plan, Infeasible> last = make_resident_planner()->plan(problem);
    if (last || groundwork.is_below_floor()) return last;
    for (const Choice& choice : DropSearch(groundwork, Means::kReplays).run()) {
      const trace::Trace rewritten = plan::rewrite(problem.trace, choice.replays).value().trace;
      auto found = make_resident_planner()->plan({rewritten, problem.machine, problem.budget, problem.options});
      if (found) return with_replays(std::move(found.value()), "recompute", choice);
    }
    return last;
  }
};

}  // namespace

std::unique_ptr<Planner> make_hybrid_planner() { return std::make_unique<HybridPlanner>(); }
std::unique_ptr<Planner> make_recompute_planner() { return std::make_unique<RecomputePlanner>(); }

}  // namespace tensorpager::planning
