#include "tensorpager/guide/analysis.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tensorpager/guide/candidates.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/planning/lower_bound.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/windows.h"

namespace tensorpager::guide {

using base::Bytes;

namespace {

/// Bytes per second of a direction in which nothing was moved yet. A plan for a slower link begins its transfers
/// earlier.
constexpr double kUnknownRate = 1e9;
constexpr std::uint64_t kEnoughBlocks = 16;  // least number of moved blocks from which the cost of one is known

machine::Nanoseconds nanoseconds_of(double seconds) { return machine::Nanoseconds(std::llround(seconds * 1e9)); }

/// `handling`: seconds.
machine::Link link_of(const transfer::Queues::Rate& rate, double handling) {
  const double bytes_per_second = rate.bytes_per_second > 0 ? rate.bytes_per_second : kUnknownRate;
  return {.latency = nanoseconds_of(rate.latency),
          .handling = nanoseconds_of(handling),
          .steps = {{.from = {}, .bytes_per_second = bytes_per_second}}};
}

/// Plans of an earlier session, with predictions by the times measured now.
std::vector<plan::Plan> find_kept(const plan::PlanCache& cache, const std::vector<Candidate>& candidates, Bytes budget,
                                  const machine::Machine& machine) {
  plan::PlanCache::Traces traces;
  for (const Candidate& one : candidates) traces.push_back(&one.trace);
  std::vector<plan::Plan> plans = cache.find(traces, budget);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto rewriting = plan::rewrite(candidates[i].trace, plans[i].replays);
    if (!rewriting) return {};
    plans[i].predicted = plan::predict(plans[i], plan::op_times(rewriting.value().trace, machine), machine);
  }
  return plans;
}

bool has_more_than(const std::vector<Candidate>& candidates, const Profile& known) {
  return std::ranges::any_of(candidates, [&](const Candidate& one) { return known.find(one.signatures) == nullptr; });
}

std::vector<plan::Plan> plan_alone(const planning::Problem& problem, const std::string& planner) {
  const auto plan = planning::make_planner(planner)->plan(problem);
  return plan ? std::vector{plan.value()} : std::vector<plan::Plan>();
}

/// One plan for each candidate, or for the first alone if they have no common table; empty if there is no plan.
std::vector<plan::Plan> plan_all(const std::vector<Candidate>& candidates, Bytes budget,
                                 const machine::Machine& machine, const std::string& planner) {
  std::vector<planning::Problem> problems;
  problems.reserve(candidates.size());
  for (const Candidate& one : candidates)
    problems.push_back({.trace = one.trace, .machine = machine, .budget = budget});
  if (problems.size() == 1) return plan_alone(problems.front(), planner);
  const auto plans = planning::plan_classes(problems, planner);
  return plans ? plans->plans : plan_alone(problems.front(), planner);
}

}  // namespace

machine::Machine machine_of(const pager::TransferCosts& costs) {
  machine::Machine machine;
  machine.name = "session";
  machine.out = link_of(costs.rates.out, costs.page_out.each() + costs.rest_each());
  machine.in = link_of(costs.rates.in, costs.page_in.each() + costs.rest_each());
  return machine;
}

machine::Machine machine_since(const pager::TransferCosts& before, const pager::TransferCosts& now) {
  const pager::TransferCosts since = now.since(before);
  return machine_of(std::min(since.page_out.blocks, since.page_in.blocks) >= kEnoughBlocks ? since : now);
}

base::Result<Profile, NoProfile> analyse(const trace::Stream& stream, Bytes budget, const machine::Machine& machine,
                                         const AnalysisOptions& options) {
  const auto& [known, cache, planner] = options;
  Profile profile;
  const std::vector<trace::WindowClass> classes = trace::classify_windows(stream);
  std::vector<Candidate> candidates = candidates_in(classes, stream);
  if (candidates.empty()) return NoProfile::kNoWindow;
  const Candidate& most = candidates.front();
  profile.thread = stream.ops[most.end - stream.first - most.trace.ops.size()].thread;
  const auto fits = [&](const Candidate& one) { return plan::Liveness(one.trace).need() <= budget; };
  if (std::ranges::all_of(candidates, fits)) return NoProfile::kFits;
  if (known != nullptr && known->thread == profile.thread) add_known(candidates, *known);
  relate(candidates, classes, stream);
  // Known classes are planned again, from the measured times.
  std::vector<plan::Plan> plans;
  if (cache != nullptr && (known == nullptr || has_more_than(candidates, *known)))
    plans = find_kept(*cache, candidates, budget, machine);
  if (!plans.empty()) profile.origin = Profile::Origin::kCache;
  if (plans.empty()) plans = plan_all(candidates, budget, machine, planner);
  if (plans.empty()) return NoProfile::kBelowFloor;

  for (std::size_t i = 0; i < plans.size(); ++i) {
    Candidate& from = candidates[i];
    const plan::Liveness liveness(from.trace);
    const auto bound = planning::lower_bound(liveness, plan::op_times(from.trace, machine), machine, budget);
    ClassProfile& one = profile.classes.emplace_back(
        ClassProfile{.agenda = std::make_shared<const follow::Agenda>(from.trace, plans[i], std::move(from.signatures)),
                     .trace = nullptr,
                     .blocks = std::move(from.blocks),
                     .end = from.end,
                     .need = liveness.need(),
                     .floor = liveness.floor(),
                     .compute = machine.time_of_ops(from.trace),
                     .share = from.share,
                     .is_similar = from.is_similar});
    one.trace = std::make_shared<const trace::Trace>(std::move(from.trace));
    one.lower_bound_overhead = plan::overhead_of(bound, one.predicted().compute);
  }
  return profile;
}

void keep(const Profile& profile, Bytes budget, const plan::PlanCache& cache) {
  plan::PlanCache::Traces traces;
  std::vector<plan::Plan> plans;
  for (const ClassProfile& one : profile.classes) {
    traces.push_back(one.trace.get());
    plans.push_back(one.agenda->plan());
  }
  cache.keep(traces, budget, plans);
}

}  // namespace tensorpager::guide
