// Planned movement and recomputation: for each of the best few choices of what is dropped (drop_search.h) the planner
// `pages` plans the window with its replays, and the quickest plan is taken. The plans of `pages` without replays and
// of `recompute`, which moves nothing, are among them.
#include <utility>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/attempt.h"
#include "tensorpager/planning/drop_search.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {
namespace {

using Choice = DropSearch::Choice;

Plan with_replays(Plan plan, const Choice& choice) {
  plan.replays = choice.replays;
  return plan;
}

Nanoseconds step_of(const Plan& plan, const Problem& problem) {
  return planning::step_of(plan.rows, plan::op_times(problem.trace, problem.machine),
                           with_link_share(problem.machine, problem.options.link_share), problem.machine);
}

/// Replays alone make room, or nothing does.
base::Result<Plan, Infeasible> plan_with_replays_alone(const Problem& problem, const Groundwork& groundwork) {
  base::Result<Plan, Infeasible> resident = make_resident_planner()->plan(problem);
  if (resident || groundwork.is_below_floor()) return resident;
  for (const Choice& choice : DropSearch(groundwork, Means::kReplays).run()) {
    const trace::Trace rewritten = plan::rewrite(problem.trace, choice.replays).value().trace;
    auto found = make_resident_planner()->plan({rewritten, problem.machine, problem.budget, problem.options});
    if (found) return with_replays(std::move(found.value()), choice);
  }
  return resident;
}

class HybridPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    auto pages = make_pages_planner()->plan(problem);
    if (!pages) return pages;
    Best best{.plan = pages.value(), .step = step_of(pages.value(), problem)};
    const Groundwork groundwork(problem);
    if (best.plan.predicted.step > groundwork.starts.back()) {
      for (const Choice& choice : DropSearch(groundwork, Means::kReplaysAndTransfers).run()) {
        // Offsets seldom make a plan quicker than bytes alone promise.
        if (!choice.replays.empty() && choice.step < best.step) try_choice(problem, choice, best);
      }
      if (problem.boundary == nullptr) {
        auto alone = plan_with_replays_alone(problem, groundwork);
        if (alone && alone->predicted.step < best.plan.predicted.step) best.plan = std::move(alone.value());
      }
    }
    best.plan.planner = "hybrid";
    return std::move(best.plan);
  }

 private:
  struct Best {
    Plan plan;
    Nanoseconds step;
  };

  /// A plan that is quicker on the whole must not be slower than the best with the machine's own links.
  static void try_choice(const Problem& problem, const Choice& choice, Best& best) {
    const trace::Trace rewritten = plan::rewrite(problem.trace, choice.replays).value().trace;
    const Problem inner{rewritten, problem.machine, problem.budget, problem.options, problem.boundary};
    auto found = make_pages_planner()->plan(inner);
    if (!found || found->predicted.step > best.plan.predicted.step) return;
    const Nanoseconds step = step_of(found.value(), inner);
    if (step >= best.step) return;
    best = {.plan = with_replays(std::move(found.value()), choice), .step = step};
  }
};

class RecomputePlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "recompute");
    auto found = plan_with_replays_alone(problem, Groundwork(problem));
    if (found) found.value().planner = "recompute";
    return found;
  }
};

}  // namespace

std::unique_ptr<Planner> make_hybrid_planner() { return std::make_unique<HybridPlanner>(); }
std::unique_ptr<Planner> make_recompute_planner() { return std::make_unique<RecomputePlanner>(); }

}  // namespace tensorpager::planning
