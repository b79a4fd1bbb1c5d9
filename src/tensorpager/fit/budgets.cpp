#include "tensorpager/fit/budgets.h"

#include "tensorpager/plan/plan.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/sim/simulator.h"

namespace tensorpager::fit {
namespace {

constexpr std::uint64_t kSteps = 32;

}  // namespace

std::optional<Cost> cost_of(const trace::Trace& trace, const plan::Liveness& liveness, const machine::Machine& machine,
                            base::Bytes budget, const planning::Planner& planner, const planning::Options& options) {
  const machine::Nanoseconds resident = machine.time_of_ops(trace);
  if (liveness.need() <= budget)
    return Cost{.budget = budget, .step = resident, .overhead = 0, .page_out = {}, .page_in = {}};
  const auto plan = planner.plan({.trace = trace, .machine = machine, .budget = budget, .options = options});
  if (!plan) return std::nullopt;
  const sim::Outcome outcome = sim::simulate(trace, plan.value(), machine);
  const auto& measured = outcome.measured;
  return Cost{.budget = budget,
              .step = measured.step,
              .overhead = plan::overhead_of(measured.step, resident),
              .page_out = measured.page_out,
              .page_in = measured.page_in,
              .on_host = plan::host_bytes(plan.value())};
}

Cost cheapest_within(const trace::Trace& trace, const machine::Machine& machine, double overhead, unsigned most_plans,
                     const planning::Planner& planner, const planning::Options& options) {
  const plan::Liveness liveness(trace);
  const std::uint64_t floor = liveness.floor().count();
  const std::uint64_t width = liveness.need().count() - floor;
  Cost best{
      .budget = liveness.need(), .step = machine.time_of_ops(trace), .overhead = 0, .page_out = {}, .page_in = {}};
  std::uint64_t above = kSteps, below = 0;  // in 1/kSteps of the width: cheap enough, and too expensive
  for (unsigned plans = 0; plans < most_plans && above - below > 1; ++plans) {
    const std::uint64_t middle = (above + below) / 2;
    const base::Bytes budget(floor + width / kSteps * middle);
    const auto cost = cost_of(trace, liveness, machine, budget, planner, options);
    if (cost && cost->overhead <= overhead) {
      best = *cost;
      above = middle;
    } else {
      below = middle;
    }
  }
  return best;
}

}  // namespace tensorpager::fit
