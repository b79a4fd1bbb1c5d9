// A plan does not depend on how many threads made it. The only test of planning under ThreadSanitizer.
#include <gtest/gtest.h>

#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "small_machine.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {
namespace {

TEST(PlanningThreads, DecideTheSameTogetherAsAlone) {
  for (unsigned seed = 1; seed <= random_cases(30, 8); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = plan::with_pure_ops(plan::random_trace(seed), seed);
    const machine::Machine machine = small_machine();
    const plan::Liveness liveness(trace);
    const base::Bytes budget((liveness.floor().count() + liveness.need().count()) / 2);
    Problem problem{.trace = trace, .machine = machine, .budget = budget, .options = {}};
    problem.options.techniques.annealing = 20'000;
    const auto alone = make_hybrid_planner()->plan(problem);
    problem.options.threads = 3;
    const auto together = make_hybrid_planner()->plan(problem);
    ASSERT_TRUE(alone && together);
    ASSERT_EQ(plan::write_plan(alone.value()), plan::write_plan(together.value()));
  }
}

}  // namespace
}  // namespace tensorpager::planning
