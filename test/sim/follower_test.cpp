// The follower under misses: nothing is lost, nothing goes over the budget, and it finds back to the plan.
#include "tensorpager/sim/follower.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../plan/synthetic_traces.h"
#include "tensorpager/plan/boundary.h"
#include "tensorpager/sim/ground.h"
#include "tensorpager/sim/simulator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::sim {
namespace {

using base::Bytes;
using plan::Machine;
using plan::Nanoseconds;

plan::Plan plan_at(const trace::Trace& trace, const Machine& machine, Bytes budget) {
  return plan::make_pages_planner()->plan({.trace = trace, .machine = machine, .budget = budget}).value();
}

std::uint32_t median(std::vector<std::uint32_t> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Where all is as planned nothing is on demand, and a window takes what the plan promises; waits are by range here, so
// it may take less.
TEST(Follower, KeepsToThePlanWhereNothingIsMissed) {
  for (const char* name : {"resnet50", "gpt2"}) {
    SCOPED_TRACE(name);
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Machine machine = plan::named_machine("m40-12g");
    const plan::Plan plan = plan_at(trace, machine, Bytes(plan::Liveness(trace).need().count() / 2));
    Follower follower(machine, plan.budget);
    follower.run(trace, plan, steps_of(trace));
    const Followed first = follower.outcome();
    for (int window = 0; window < 3; ++window) follower.run(trace, plan, steps_of(trace));
    const Followed& all = follower.outcome();
    EXPECT_EQ(all.on_demand, 0u);
    EXPECT_EQ(all.lost, 0u);
    EXPECT_TRUE(all.off_plan.empty());
    EXPECT_LE((all.time - first.time) / 3, plan.predicted.step * 101 / 100);
  }
}

TEST(Follower, LosesNothingAndStaysWithinTheBudgetOfRandomTraces) {
  Machine machine;
  machine.out = machine.in = {.latency = Nanoseconds(500), .steps = {{.from = Bytes(0), .bytes_per_second = 1e9}}};
  std::uint64_t misses = 0;
  std::uint64_t on_demand = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = plan::random_trace(seed);
    const plan::Liveness liveness(trace);
    const std::uint64_t floor = liveness.floor().count();
    const Bytes budget(floor + (liveness.need().count() - floor) * (seed % 5) / 4);
    const plan::Plan plan = plan_at(trace, machine, budget);
    std::mt19937 random(seed);
    Follower follower(machine, plan.budget);
    for (int window = 0; window < 4; ++window) follower.run(trace, plan, with_misses(trace, 0.2, random));
    const Followed& all = follower.outcome();
    ASSERT_EQ(all.lost, 0u);
    ASSERT_LE(all.peak, budget);
    // Only where a grown storage makes an op's own storages more than the floor.
    ASSERT_LE(all.does_not_fit, all.misses);
    misses += all.misses;
    on_demand += all.on_demand;
  }
  EXPECT_GT(misses, 2000u);
  EXPECT_GT(on_demand, 200u);
}

TEST(Follower, FindsBackToThePlansOfTwoClassesThatAlternate) {
  for (const char* name : {"resnet50", "gpt2"}) {
    SCOPED_TRACE(name);
    const trace::Trace train = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const trace::Trace evaluate = plan::other_class(train, 1);
    const Machine machine = plan::named_machine("m40-12g");
    const Bytes budget(plan::Liveness(train).need().count() / 2);
    const auto classes = plan::plan_classes({{.trace = train, .machine = machine, .budget = budget},
                                             {.trace = evaluate, .machine = machine, .budget = budget}});
    ASSERT_TRUE(classes);
    std::mt19937 random(7);
    Follower follower(machine, budget);
    for (int window = 0; window < 10; ++window) {
      const bool trains = window % 2 == 0;
      const trace::Trace& trace = trains ? train : evaluate;
      follower.run(trace, classes->plans[trains ? 0 : 1], with_misses(trace, 0.05, random));
    }
    const Followed& all = follower.outcome();
    EXPECT_GT(all.misses, 300u);
    EXPECT_EQ(all.lost, 0u);
    EXPECT_EQ(all.does_not_fit, 0u);
    EXPECT_LE(all.peak, budget);
    ASSERT_GT(all.off_plan.size(), all.misses / 4);
    EXPECT_LE(median(all.off_plan), 50u);
  }
}

TEST(Misses, AreAboutTheShareAskedForAndOfAllKinds) {
  const trace::Trace trace = plan::layered_trace(3000);
  std::mt19937 random(1);
  int inserted = 0;
  int left_out = 0;
  int grown = 0;
  for (const Step& step : with_misses(trace, 0.1, random)) {
    inserted += step.inserted ? 1 : 0;
    left_out += step.left_out ? 1 : 0;
    grown += step.grown ? 1 : 0;
    EXPECT_LE(step.inserted + step.left_out + step.grown, 1);
    EXPECT_EQ(step.inserted, step.life > 0);
    EXPECT_LE(step.life, 50u);
  }
  EXPECT_NEAR(inserted, 100, 30);
  EXPECT_NEAR(left_out, 100, 30);
  EXPECT_GT(grown, 50);
}

TEST(Ground, TellsSinceWhenARangeIsNoLongerRead) {
  Ground ground(1000);
  EXPECT_EQ(ground.take(0, 400, 1), Nanoseconds(0));
  EXPECT_EQ(ground.take(400, 400, 2), Nanoseconds(0));
  ground.give_back(0, Nanoseconds(50));
  EXPECT_EQ(ground.charged(Nanoseconds(10)), 800u);
  EXPECT_EQ(ground.gaps(true, Nanoseconds(10)).size(), 1u);
  EXPECT_EQ(ground.gaps(false, Nanoseconds(10)).size(), 2u);
  // Half of what is still read is taken: its reader must be waited for, and the other half counts on.
  EXPECT_EQ(ground.take(0, 200, 3), Nanoseconds(50));
  EXPECT_EQ(ground.charged(Nanoseconds(10)), 800u);
  EXPECT_EQ(ground.charged(Nanoseconds(60)), 600u);
  EXPECT_EQ(ground.owners(100, 500), (std::vector<Owner>{3, 2}));
}

TEST(Ground, NeverLetsTwoBlocksOverlap) {
  Ground ground(1000);
  (void)ground.take(100, 400, 1);
  EXPECT_DEATH((void)ground.take(400, 200, 2), "");
  EXPECT_DEATH((void)ground.take(900, 200, 2), "");
}

}  // namespace
}  // namespace tensorpager::sim
