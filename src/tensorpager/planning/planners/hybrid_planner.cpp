// Planned movement and recomputation: for each of the best few choices of what is dropped (drop_search.h) the planner
// `pages` plans the window with its replays, and the quickest plan is taken. The plans of `pages` without replays and
// of `recompute`, which moves nothing, are among them.
#include <algorithm>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/attempt.h"
#include "tensorpager/planning/drop_search.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {
namespace {

using Choice = DropSearch::Choice;

/// Where placing blocks makes the best plan slower than the best choice by more than this, less is judged with.
constexpr double kWorthLess = 1.01;

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

/// What `pages` makes of a choice, with its step as it is compared.
struct Planned {
  Plan plan;
  Nanoseconds step;
};

base::Result<Planned, Infeasible> plan_choice(const Problem& problem, const Choice& choice) {
  const trace::Trace rewritten = plan::rewrite(problem.trace, choice.replays).value().trace;
  const Problem inner{rewritten, problem.machine, problem.budget, problem.options, problem.boundary};
  auto found = make_pages_planner()->plan(inner);
  if (!found) return found.error();
  const Nanoseconds step = step_of(found.value(), inner);
  return Planned{.plan = with_replays(std::move(found.value()), choice), .step = step};
}

/// Runs on a thread of its own, or when it is asked for if this thread is to plan alone.
template <typename Make>
auto start(const Problem& problem, Make make) {
  return std::async(problem.options.threads > 1 ? std::launch::async : std::launch::deferred, std::move(make));
}

class HybridPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    auto pages = make_pages_planner()->plan(problem);
    if (!pages) return pages;
    Planned best{.plan = pages.value(), .step = step_of(pages.value(), problem)};
    const Groundwork groundwork(problem);
    if (best.plan.predicted.step > groundwork.starts.back()) {
      std::future<base::Result<Plan, Infeasible>> alone;
      if (problem.boundary == nullptr)
        alone = start(problem, [&] { return plan_with_replays_alone(problem, groundwork); });
      DropSearch search(groundwork, Means::kReplaysAndTransfers);
      const std::vector<Choice> choices = search.run();
      try_all(problem, choices, best);
      const bool is_slower = !choices.empty() && best.step > kWorthLess * choices.front().step;
      if (is_slower && problem.options.techniques.replays_for_less && !search.is_large())
        try_all(problem, search.run(DropSearch::kMore), best);
      if (alone.valid()) take_if_quicker(alone.get(), best.plan);
    }
    best.plan.planner = "hybrid";
    return std::move(best.plan);
  }

 private:
  static void try_all(const Problem& problem, const std::vector<Choice>& choices, Planned& best) {
    const std::size_t at_once = std::max(1U, problem.options.threads);
    for (std::size_t first = 0; first < choices.size(); first += at_once)
      try_choices(problem, std::span(choices).subspan(first, std::min(at_once, choices.size() - first)), best);
  }

  /// All at once. Which is taken does not depend on how many these are.
  static void try_choices(const Problem& problem, std::span<const Choice> choices, Planned& best) {
    // Offsets seldom make a plan quicker than bytes alone promise.
    const auto is_promising = [&](const Choice& one) { return !one.replays.empty() && one.step < best.step; };
    std::vector<std::future<base::Result<Planned, Infeasible>>> found(choices.size());
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (is_promising(choices[i])) found[i] = start(problem, [&, i] { return plan_choice(problem, choices[i]); });
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (!found[i].valid() || !is_promising(choices[i])) continue;
      auto planned = found[i].get();
      // A plan that is quicker on the whole must not be slower than the best with the machine's own links.
      if (!planned || planned->plan.predicted.step > best.plan.predicted.step || planned->step >= best.step) continue;
      best = std::move(planned.value());
    }
  }

  static void take_if_quicker(base::Result<Plan, Infeasible> other, Plan& best) {
    if (other && other->predicted.step < best.predicted.step) best = std::move(other.value());
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

/// Whatever it costs, all is dropped that can be rebuilt, and `pages` plans the rest. If that has no plan, because a
/// replay needs more memory than there is at the floor, nothing is dropped.
class RecomputeAllPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    auto planned = plan_choice(problem, all_dropped(groundwork));
    if (!planned) planned = plan_choice(problem, {});
    if (!planned) return planned.error();
    planned.value().plan.planner = "recompute_all";
    return std::move(planned.value().plan);
  }

 private:
  /// Arguments that are dead are kept for more replays if they would be rebuilt too often. If even so there are too
  /// many replays, nothing is dropped.
  static Choice all_dropped(const Groundwork& groundwork) {
    const Recomputation recomputation(groundwork.problem.trace, groundwork.liveness, groundwork.op_times);
    const std::vector<Drop> all(recomputation.droppable().size(), Drop::kOnce);
    for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore})
      if (auto replays = recomputation.replays(all, kMostReplaysAnOp * groundwork.liveness.ops(), arguments))
        return {.dropped = all, .arguments = arguments, .replays = std::move(*replays)};
    return {};
  }
};

}  // namespace

std::unique_ptr<Planner> make_hybrid_planner() { return std::make_unique<HybridPlanner>(); }
std::unique_ptr<Planner> make_recompute_planner() { return std::make_unique<RecomputePlanner>(); }
std::unique_ptr<Planner> make_recompute_all_planner() { return std::make_unique<RecomputeAllPlanner>(); }

}  // namespace tensorpager::planning
