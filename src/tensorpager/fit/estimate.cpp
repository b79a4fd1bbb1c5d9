#include "tensorpager/fit/estimate.h"

#include <algorithm>
#include <thread>

#include "tensorpager/plan/liveness.h"

namespace tensorpager::fit {
namespace {

/// A budget counts as free if its overhead is at most this share of the step's compute.
constexpr double kFree = 0.01;
/// A large trace takes seconds to plan, so fewer budgets are tried.
constexpr std::size_t kLargeTrace = 5000;
constexpr unsigned kMostPlans = 5, kMostPlansOfLarge = 2;

}  // namespace

Estimate estimate(const trace::Trace& trace, const machine::Machine& machine, base::Bytes allocated,
                  base::Bytes reserved, std::optional<base::Bytes> asked) {
  const plan::Liveness liveness(trace);
  Estimate found;
  found.card = machine.card->memory;
  found.allocated = allocated;
  found.reserved = reserved;
  found.need = liveness.need();
  found.floor = liveness.floor();
  found.ops = trace.ops.size();
  found.parts = composition_at_peak(trace, liveness);
  found.peak_op = trace.ops[found.parts.op].name;
  found.compute = machine.time_of_ops(trace);
  // As sessions plan on a card.
  const auto planner = planning::make_hybrid_planner();
  const planning::Options options{.threads = std::max(1U, std::thread::hardware_concurrency())};
  found.free = cheapest_within(trace, machine, kFree, found.ops > kLargeTrace ? kMostPlansOfLarge : kMostPlans,
                               *planner, options);
  const auto cost_in = [&](base::Bytes budget) { return cost_of(trace, liveness, machine, budget, *planner, options); };
  found.half = cost_in(base::Bytes(found.need.count() / 2));
  if (!found.fits() && found.card > kContext) found.whole_card = cost_in(std::min(found.card - kContext, found.need));
  if (asked) found.asked = cost_in(*asked);
  return found;
}

}  // namespace tensorpager::fit
