// What the pager makes of plans, on a virtual clock.
#include "tensorpager/sim/pager_run.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/sim/misses.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::sim {
namespace {

using namespace base;
using machine::Machine;
using machine::Nanoseconds;
using plan::Plan;

Machine small_machine(Nanoseconds handling = Nanoseconds(0)) {
  const machine::Link link{
      .latency = Nanoseconds(500), .handling = handling, .steps = {{.from = 0_B, .bytes_per_second = 1e9}}};
  Machine machine;
  machine.name = "small";
  machine.out = machine.in = link;
  return machine;
}

Plan make_plan(const trace::Trace& trace, Bytes budget, const Machine& machine, const char* planner = "pages") {
  return planning::make_planner(planner)->plan({.trace = trace, .machine = machine, .budget = budget}).value();
}

void expect_as_promised(const trace::Trace& trace, const Plan& plan, const Machine& machine) {
  const PagerRun::Window window = follow(trace, plan, machine);
  ASSERT_EQ(window.misses, 0u);
  ASSERT_EQ(window.followed_ops, trace.ops.size());
  ASSERT_EQ(window.measured.curve, plan.predicted.curve);
  ASSERT_EQ(window.measured.step, plan.predicted.step);
  ASSERT_TRUE(window.measured == plan.predicted);
  ASSERT_EQ(window.measured.step - window.measured.compute,
            window.stalled_for_page_outs + window.stalled_for_page_ins + window.handled);
  ASSERT_EQ(window.ops_as_planned, trace.ops.size());
}

constexpr unsigned kSeeds = random_cases(1000, 100);
constexpr unsigned kMissSeeds = random_cases(1000, 25);

class PagerRunOfPlanner : public testing::TestWithParam<const char*> {};

TEST_P(PagerRunOfPlanner, DoesAsAThousandRandomPlansPromise) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Machine machine = small_machine(Nanoseconds(seed % 2 * 700));
    const trace::Trace trace = plan::random_trace(seed);
    const plan::Liveness liveness(trace);
    const std::uint64_t floor = liveness.floor().count();
    const Bytes budget(floor + (liveness.need().count() - floor) * (seed % 7) / 5);
    expect_as_promised(trace, make_plan(trace, budget, machine, GetParam()), machine);
    if (HasFatalFailure()) return;
  }
}

TEST_P(PagerRunOfPlanner, DoesAsPlansOfRealTracesPromise) {
  const Machine machine = machine::named_machine("m40-12g");
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const std::uint64_t need = plan::Liveness(trace).need().count();
    for (const unsigned percent : {60, 30}) {
      SCOPED_TRACE(std::string(name) + " at " + std::to_string(percent) + " %");
      expect_as_promised(trace, make_plan(trace, Bytes(need * percent / 100), machine, GetParam()), machine);
      if (HasFatalFailure()) return;
    }
  }
}

// Where ops come and go the window costs more, and soon all is again as promised.
TEST(PagerRun, FindsItsWayBackAfterMisses) {
  const Machine machine = machine::named_machine("m40-12g");
  for (const char* name : {"resnet50", "gpt2", "unet"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Plan plan = make_plan(trace, Bytes(plan::Liveness(trace).need().count() / 2), machine);
    PagerRun run(trace, plan, machine);
    for (unsigned seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      run.run(trace);
      std::mt19937 random(seed);
      const Missed other = with_misses(trace, 0.015, random);
      const PagerRun::Window missed = run.run(other.window);
      EXPECT_GT(missed.misses, 0u);
      EXPECT_GE(missed.followed_ops, trace.ops.size() * 9 / 10);
      PagerRun::Window after;
      for (int window = 0; window < 3; ++window) after = run.run(trace);
      EXPECT_EQ(after.misses, 0u);
      EXPECT_TRUE(after.measured == plan.predicted)
          << after.measured.step.count() << " and " << plan.predicted.step.count();
      EXPECT_LE(missed.measured.step, plan.predicted.step * 5 / 4);
    }
  }
}

/// Of both classes, where they alternate and nothing is missed.
std::array<Nanoseconds, 2> steps_in_turn(const std::vector<PagerRun::Class>& both, const Machine& machine) {
  PagerRun run(both, machine);
  std::array<Nanoseconds, 2> steps = {};
  for (int window = 0; window < 4; ++window) {
    for (std::size_t i = 0; i < 2; ++i) steps[i] = run.run(both[i].trace).measured.step;
  }
  return steps;
}

// Classes that are told apart by what they do, in turn: a miss in one may lead to the other's plan, and back.
TEST(PagerRun, FindsItsWayBackToThePlansOfTwoClassesThatAlternate) {
  const Machine machine = machine::named_machine("m40-12g");
  for (const char* name : {"resnet50", "gpt2", "unet"}) {
    const trace::Trace train = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const trace::Trace evaluate = plan::other_class(train, 1);
    const Bytes budget(plan::Liveness(train).need().count() / 2);
    const auto classes = planning::plan_classes({{.trace = train, .machine = machine, .budget = budget},
                                                 {.trace = evaluate, .machine = machine, .budget = budget}});
    ASSERT_TRUE(classes);
    const Plan& plan_of_train = classes->plans[0];
    const Plan& plan_of_evaluate = classes->plans[1];
    const std::vector<PagerRun::Class> both = {{train, plan_of_train}, {evaluate, plan_of_evaluate}};
    // A plan promises times for a window after itself. After another class other page-outs are under way when it
    // begins: less is to be waited for, or more, where a place is taken that the other class's window is still copied
    // from.
    const std::array<Nanoseconds, 2> undisturbed = steps_in_turn(both, machine);
    for (std::size_t i = 0; i < 2; ++i) {
      const Nanoseconds promised = both[i].plan.predicted.step;
      EXPECT_LE(undisturbed[i], promised + promised / 50);
      EXPECT_GE(undisturbed[i], promised - promised / 200);
    }
    PagerRun run(both, machine);
    std::mt19937 random(7);
    for (int round = 1; round <= 3; ++round) {
      SCOPED_TRACE(std::string(name) + ", round " + std::to_string(round));
      for (int window = 0; window < 2; ++window) {
        run.run(with_misses(train, 0.03, random).window);
        run.run(with_misses(evaluate, 0.03, random).window);
      }
      for (int window = 0; window < 3; ++window) {
        const PagerRun::Window trained = run.run(train);
        const PagerRun::Window evaluated = run.run(evaluate);
        if (window < 2) continue;
        for (std::size_t i = 0; i < 2; ++i) {
          const PagerRun::Window& window_of = i == 0 ? trained : evaluated;
          EXPECT_EQ(window_of.misses, 0u);
          EXPECT_EQ(window_of.ops_as_planned, train.ops.size());
          EXPECT_EQ(window_of.measured.step, undisturbed[i]);
          EXPECT_EQ(window_of.measured.page_in, both[i].plan.predicted.page_in);
        }
        // What leaves at a window's end is counted in the next.
        EXPECT_EQ(trained.measured.page_out + evaluated.measured.page_out,
                  plan_of_train.predicted.page_out + plan_of_evaluate.predicted.page_out);
      }
    }
  }
}

// What is grown or inserted may be more than there is. And a block that was paged in elsewhere, and is pinned in the
// middle of a small arena, may leave no place for what the op creates: nobody knows beforehand how much that is.
TEST(PagerRun, SurvivesMissesInRandomTraces) {
  const Machine machine = small_machine();
  std::uint64_t too_large = 0, in_no_one_place = 0;
  for (unsigned seed = 1; seed <= kMissSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = plan::random_trace(seed);
    const plan::Liveness liveness(trace);
    const std::uint64_t floor = liveness.floor().count();
    const Plan plan = make_plan(trace, Bytes(floor + (liveness.need().count() - floor) / 2), machine);
    PagerRun run(trace, plan, machine);
    run.run(trace);
    std::mt19937 random(seed);
    try {
      run.run(with_misses(trace, 0.2, random).window);
      for (int window = 0; window < 2; ++window) run.run(trace);
      EXPECT_EQ(run.run(trace).misses, 0u);
    } catch (const OverBudget& error) {
      ++(error.asked() + error.pinned() > error.budget() ? too_large : in_no_one_place);
    }
  }
  EXPECT_LE(too_large, kMissSeeds / 10);
  EXPECT_LE(in_no_one_place, kMissSeeds / 50);
}

INSTANTIATE_TEST_SUITE_P(Planners, PagerRunOfPlanner, testing::Values("pages", "lru"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace tensorpager::sim
