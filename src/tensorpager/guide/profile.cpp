#include "tensorpager/guide/profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "tensorpager/guide/candidates.h"
#include "tensorpager/plan/liveness.h"
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

machine::Nanoseconds nanoseconds_of(double seconds) { return machine::Nanoseconds(std::llround(seconds * 1e9)); }

/// `handling`: seconds.
machine::Link link_of(const transfer::Engine::Rate& rate, double handling) {
  const double bytes_per_second = rate.bytes_per_second > 0 ? rate.bytes_per_second : kUnknownRate;
  return {.latency = nanoseconds_of(rate.latency),
          .handling = nanoseconds_of(handling),
          .steps = {{.from = {}, .bytes_per_second = bytes_per_second}}};
}

double overhead_of(machine::Nanoseconds step, machine::Nanoseconds compute) {
  return compute.count() > 0 ? static_cast<double>(step.count()) / static_cast<double>(compute.count()) - 1 : 0;
}

/// Plans of an earlier session, with predictions by the times measured now.
std::vector<plan::Plan> find_kept(const plan::PlanCache& cache, const std::vector<Candidate>& candidates, Bytes budget,
                                  const machine::Machine& machine) {
  plan::PlanCache::Traces traces;
  for (const Candidate& one : candidates) traces.push_back(&one.trace);
  std::vector<plan::Plan> plans = cache.find(traces, budget);
  for (std::size_t i = 0; i < plans.size(); ++i)
    plans[i].predicted = plan::predict(plans[i], plan::op_times(candidates[i].trace, machine), machine);
  return plans;
}

bool has_more_than(const std::vector<Candidate>& candidates, const Profile& known) {
  return std::ranges::any_of(candidates, [&](const Candidate& one) { return known.find(one.signatures) == nullptr; });
}

std::vector<plan::Plan> plan_alone(const planning::Problem& problem) {
  const auto plan = planning::make_planner("pages")->plan(problem);
  return plan ? std::vector{plan.value()} : std::vector<plan::Plan>();
}

/// One plan for each candidate, or for the first alone if they have no common table; empty if there is no plan.
std::vector<plan::Plan> plan_all(const std::vector<Candidate>& candidates, Bytes budget,
                                 const machine::Machine& machine) {
  std::vector<planning::Problem> problems;
  problems.reserve(candidates.size());
  for (const Candidate& one : candidates)
    problems.push_back({.trace = one.trace, .machine = machine, .budget = budget});
  if (problems.size() == 1) return plan_alone(problems.front());
  const auto plans = planning::plan_classes(problems);
  return plans ? plans->plans : plan_alone(problems.front());
}

}  // namespace

base::OpSignature signature_of(const trace::Stream& stream, const trace::StreamOp& op) {
  base::OpSignature signature{.name = base::name_hash(op.facts.name)};
  for (std::size_t i = 0; i < op.arguments; ++i) signature.add(stream.storages[op.touched[i].storage].bytes);
  return signature;
}

double overhead_of(const plan::Prediction& predicted) { return overhead_of(predicted.step, predicted.compute); }

const ClassProfile* Profile::find(const std::vector<base::OpSignature>& signatures) const {
  const auto found = std::ranges::find(
      classes, signatures, [](const ClassProfile& one) -> const auto& { return one.agenda->signatures(); });
  return found != classes.end() ? &*found : nullptr;
}

bool Profile::has_similar() const { return std::ranges::any_of(classes, &ClassProfile::is_similar); }

bool Profile::has_more_than(const Profile& other) const {
  return std::ranges::any_of(classes,
                             [&](const ClassProfile& one) { return other.find(one.agenda->signatures()) == nullptr; });
}

std::vector<plan::Prediction> Profile::predict_again(const Profile& other, const machine::Machine& machine) const {
  std::vector<plan::Prediction> predictions;
  for (const ClassProfile& one : classes) {
    const ClassProfile* const same = other.find(one.agenda->signatures());
    if (same == nullptr) return {};
    predictions.push_back(plan::predict(same->agenda->plan(), plan::op_times(*one.trace, machine), machine));
  }
  return predictions;
}

double gain_over(const Profile& profile, const std::vector<plan::Prediction>& others) {
  double now = 0, before = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const ClassProfile& one = profile.classes[i];
    // The share is of ops, so a class takes that times its mean op time.
    const double weight = one.share / one.agenda->ops();
    now += weight * std::chrono::duration<double>(one.predicted().step).count();
    before += weight * std::chrono::duration<double>(others[i].step).count();
  }
  return before > 0 ? 1 - now / before : 0;
}

std::string Profile::describe() const {
  std::string text;
  const auto percent = [](double share) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f %%", share * 100);
    return std::string(digits.data());
  };
  for (const ClassProfile& one : classes) {
    const plan::Prediction& predicted = one.predicted();
    text += (text.empty() ? "" : "; ") + std::string(one.is_similar ? "variable-shape step of about " : "step of ") +
            std::to_string(one.agenda->ops()) + " ops (need " + base::format_bytes(one.need) + ", floor " +
            base::format_bytes(one.floor) + "), " + base::format_bytes(predicted.page_out) + " out and " +
            base::format_bytes(predicted.page_in) + " in, predicted overhead " + percent(overhead_of(predicted));
    if (one.lower_bound_overhead) text += " (lower bound " + percent(*one.lower_bound_overhead) + ")";
  }
  return text;
}

machine::Machine machine_of(const pager::TransferCosts& costs) {
  machine::Machine machine;
  machine.name = "session";
  machine.out = link_of(costs.rates.out, costs.page_out.each() + costs.rest_each());
  machine.in = link_of(costs.rates.in, costs.page_in.each() + costs.rest_each());
  return machine;
}

base::Result<Profile, NoProfile> analyse(const trace::Stream& stream, Bytes budget, const machine::Machine& machine,
                                         const Profile* known, const plan::PlanCache* cache) {
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
  profile.is_kept = !plans.empty();
  if (!profile.is_kept) plans = plan_all(candidates, budget, machine);
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
                     .share = from.share,
                     .is_similar = from.is_similar});
    one.trace = std::make_shared<const trace::Trace>(std::move(from.trace));
    one.lower_bound_overhead = overhead_of(bound, one.predicted().compute);
  }
  return profile;
}

Profile profile_of(std::vector<plan::GivenPlan> given) {
  Profile profile;
  for (plan::GivenPlan& one : given) {
    const plan::Liveness liveness(one.trace);
    profile.classes.push_back({.agenda = std::make_shared<const follow::Agenda>(one.trace, std::move(one.plan)),
                               .trace = nullptr,
                               .blocks = std::vector<std::uint64_t>(one.trace.storages.size()),
                               .need = liveness.need(),
                               .floor = liveness.floor(),
                               .share = 1.0 / static_cast<double>(given.size())});
    profile.classes.back().trace = std::make_shared<const trace::Trace>(std::move(one.trace));
  }
  return profile;
}

}  // namespace tensorpager::guide
