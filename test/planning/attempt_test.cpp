// What the parts of one attempt at a plan are worth, on random traces.
#include "tensorpager/planning/attempt.h"

#include <gtest/gtest.h>

#include <string>

#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "small_machine.h"
#include "tensorpager/plan/timing.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

constexpr unsigned kSeeds = random_cases(100, 40);

struct Setting {
  explicit Setting(unsigned seed)
      : trace(random_trace(seed)),
        problem{.trace = trace, .machine = machine, .budget = budget_of(trace, seed % 5)},
        groundwork(problem),
        attempt(groundwork, nullptr, {}) {}

  /// From the floor to three quarters of the way to the need.
  static base::Bytes budget_of(const trace::Trace& trace, unsigned fifths) {
    const Liveness liveness(trace);
    return liveness.floor() + base::Bytes((liveness.need() - liveness.floor()).count() * fifths / 5);
  }
  Nanoseconds step_of(const Candidate& candidate) const {
    return time_rows(candidate.rows, groundwork.op_times, machine).step;
  }

  trace::Trace trace;
  Machine machine = small_machine();
  Problem problem;
  Groundwork groundwork;
  Attempt attempt;
};

/// The quickest of all orders, each placed once, with the tails that bytes alone predict.
Nanoseconds step_placed_once(const Setting& setting, const std::vector<Interval>& scheduled) {
  const Groundwork& groundwork = setting.groundwork;
  PackingEffort effort;
  effort.looks = (effort.looks + effort.looks_each * scheduled.size()) / kFeedbackRounds;
  Nanoseconds least = Nanoseconds::max();
  for (const PackingOrder by : {PackingOrder::kSize, PackingOrder::kArea, PackingOrder::kBegin}) {
    std::vector<Interval> intervals = scheduled;
    if (!pack_over_transfers(intervals, groundwork.starts, groundwork.space(), by, effort)) continue;
    delay_page_ins(intervals, groundwork.liveness.ops());
    least = std::min(least, setting.attempt.finish(std::move(intervals), Technique::kPacked).step);
  }
  return least;
}

TEST(Attempt, PlacesASecondTimeOverTransfersByTheTailsThatTheFirstHas) {
  constexpr unsigned kAllSeeds = 100;  // it is quicker for few of them
  unsigned quicker = 0;
  for (unsigned seed = 1; seed <= kAllSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Setting setting(seed);
    const std::vector<Interval> scheduled = setting.attempt.schedule(setting.groundwork.space());
    setting.attempt.allow_packing(scheduled.size());
    Candidates found;
    setting.attempt.place_over_transfers(scheduled, found);
    if (found.empty()) continue;
    const Nanoseconds once = step_placed_once(setting, scheduled);
    EXPECT_LE(found.least_step(), once);
    quicker += found.least_step() < once ? 1 : 0;
  }
  EXPECT_GE(quicker, 2U);
}

TEST(Attempt, SettlesBlocksCloserTogetherWhereThatIsWorthItsTime) {
  unsigned better = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Setting setting(seed);
    const Candidate candidate = setting.attempt.online().value();
    const Candidate settled = setting.attempt.settle(candidate, 2'000'000);
    EXPECT_LE(setting.attempt.cost_of(settled), setting.attempt.cost_of(candidate));
    better += setting.attempt.cost_of(settled) < setting.attempt.cost_of(candidate) ? 1 : 0;
    EXPECT_LE(top_of(settled.intervals), top_of(candidate.intervals));
  }
  EXPECT_GE(better, 5U);
}

// Where packing goes far beyond the space, and by other means comes to a slow plan, this is the better of the two.
TEST(Pages, IsNoSlowerThanPlacingOnlineByMoreThanAPercent) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const Setting setting(seed);
    const Plan plan = make_pages_planner()->plan(setting.problem).value();
    EXPECT_LE(plan.predicted.step, setting.step_of(setting.attempt.online().value()) * 101 / 100) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tensorpager::planning
