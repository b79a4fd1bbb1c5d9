// What every planner must do. To add one, add a line at the end.
#include <gtest/gtest.h>

#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "../uniform_machines.h"
#include "small_machine.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/sim/simulator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;

/// Which budgets get a plan.
enum class Room : std::uint8_t {
  kMakesNone,  // those in which all fits
  kByReplays,  // and some for which replays make room
  kByRules,    // some, by the decisions of a paper
  kAlways,     // all from the floor on
};

struct PlannerCase {
  const char* name;
  Room room;
  bool moves = true;          // pages out and in
  bool replays = false;       // runs ops again
  bool always_moves = false;  // also where all fits

  bool any_budget() const { return room == Room::kAlways; }
};

class PlannerContract : public testing::TestWithParam<PlannerCase> {
 protected:
  static Result<Plan, Infeasible> plan(const trace::Trace& trace, Bytes budget, const Machine& machine,
                                       Options options = {}) {
    options.techniques.annealing = 20'000;
    return make_planner(GetParam().name)
        ->plan({.trace = trace, .machine = machine, .budget = budget, .options = options});
  }

  /// Valid, within the budget at every op, and just as predicted.
  static void expect_kept(const trace::Trace& trace, const Plan& plan, const Machine& machine) {
    const auto violations = validate(trace, plan);
    ASSERT_TRUE(violations.empty()) << violations.front();
    const sim::Outcome outcome = sim::simulate(trace, plan, machine);
    ASSERT_EQ(outcome.measured.step, plan.predicted.step);
    ASSERT_EQ(outcome.measured.curve, plan.predicted.curve);
    ASSERT_TRUE(outcome.measured == plan.predicted);
    const std::vector<Nanoseconds> starts =
        plan::time_rows(plan.rows, plan::op_times(plan::rewritten(trace, plan), machine), machine).starts;
    ASSERT_EQ(outcome.starts, std::vector(starts.begin(), starts.end() - 1));
    for (const Bytes bytes : outcome.measured.curve) ASSERT_LE(bytes, plan.budget);
    Nanoseconds stalled{0};
    for (const Stall& stall : outcome.stalls) stalled += stall.time;
    ASSERT_EQ(stalled, outcome.stalled());
  }
};

/// The second half of the ops.
trace::Trace with_backward_pass(trace::Trace trace) {
  for (std::size_t op = trace.ops.size() / 2; op < trace.ops.size(); ++op) trace.ops[op].backward = true;
  return trace;
}

constexpr unsigned kSeeds = random_cases(1000, 150);

TEST_P(PlannerContract, KeepsAThousandRandomTraces) {
  const unsigned seeds = GetParam().replays ? kSeeds / 5 : kSeeds;
  unsigned planned = 0;
  unsigned paged = 0;
  unsigned replayed = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Machine machine = small_machine(Nanoseconds(seed % 2 * 700));
    const trace::Trace trace = with_backward_pass(with_pure_ops(random_trace(seed), seed));
    ASSERT_NO_THROW(trace::check(trace));
    const Liveness liveness(trace);
    const std::uint64_t floor = liveness.floor().count();
    // From the floor itself to a little above the need.
    const Bytes budget(floor + (liveness.need().count() - floor) * (seed % 7) / 5);
    const auto result = plan(trace, budget, machine);
    if (!result) {
      ASSERT_FALSE(GetParam().any_budget());
      ASSERT_GT(result.error().short_by, 0_B);
      ASSERT_LT(result.error().op, trace.ops.size());
      continue;
    }
    expect_kept(trace, *result.operator->(), machine);
    if (HasFatalFailure()) return;
    ++planned;
    paged += result->predicted.page_in > 0_B ? 1 : 0;
    replayed += result->replays.empty() ? 0 : 1;
  }
  EXPECT_GE(planned, GetParam().any_budget() ? seeds : seeds / 5);
  // What is dropped need not be paged.
  const unsigned paged_at_least = GetParam().replays ? seeds / 3 : seeds * 2 / 5;
  EXPECT_TRUE(GetParam().moves ? paged > (GetParam().any_budget() ? paged_at_least : 0) : paged == 0) << paged;
  if (!GetParam().replays) {
    EXPECT_EQ(replayed, 0u);
  } else if (GetParam().any_budget()) {
    EXPECT_GT(replayed, seeds / 20);
  }
}

TEST_P(PlannerContract, KeepsRealTraces) {
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Liveness liveness(trace);
    for (const char* machine_name : {"m40-12g", "h200-141g"}) {
      const Machine machine = uniform_machine(machine_name);
      for (const double share : {1.03, 0.6, 0.3}) {
        SCOPED_TRACE(std::string(name) + " on " + machine_name + " at " + std::to_string(share));
        const Bytes budget(static_cast<std::uint64_t>(static_cast<double>(liveness.need().count()) * share));
        const auto result = plan(trace, budget, machine);
        if (share > 1 || GetParam().any_budget()) {
          ASSERT_TRUE(result);
        } else if (GetParam().room == Room::kMakesNone) {
          ASSERT_FALSE(result);
        }
        if (result) expect_kept(trace, result.value(), machine);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(PlannerContract, KeepsRealTracesAlmostAtTheirFloor) {
  const Machine machine = uniform_machine("h200-141g");
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    SCOPED_TRACE(name);
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Bytes budget(Liveness(trace).floor().count() * 103 / 100);
    const auto result = plan(trace, budget, machine);
    if (GetParam().room != Room::kByRules) {
      ASSERT_EQ(static_cast<bool>(result), GetParam().any_budget());
    }
    if (result) expect_kept(trace, result.value(), machine);
    if (HasFatalFailure()) return;
  }
}

TEST(Hybrid, IsNotSlowerThanPagingOnRandomTraces) {
  for (unsigned seed = 1; seed <= random_cases(200, 20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Machine machine = small_machine();
    const trace::Trace trace = with_pure_ops(random_trace(seed), seed);
    const Liveness liveness(trace);
    const Bytes budget((liveness.floor().count() + liveness.need().count()) / 2);
    Problem problem{trace, machine, budget};
    problem.options.techniques.annealing = 5'000;
    EXPECT_LE(make_hybrid_planner()->plan(problem)->predicted.step,
              make_pages_planner()->plan(problem)->predicted.step);
  }
}

// As quick as what either means achieves alone.
TEST(Hybrid, IsNotAboveAnyPlan) {
  for (const char* name : {"resnet50", "unet"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    for (const char* machine_name : {"m40-12g", "h200-141g"}) {
      SCOPED_TRACE(std::string(name) + " on " + machine_name);
      const Machine machine = uniform_machine(machine_name);
      Problem problem{trace, machine, Bytes(Liveness(trace).need().count() * 7 / 10)};
      problem.options.techniques.annealing = 200'000;
      const Plan hybrid = make_hybrid_planner()->plan(problem).value();
      EXPECT_LE(hybrid.predicted.step, make_pages_planner()->plan(problem)->predicted.step);
      const auto recompute = make_recompute_planner()->plan(problem);
      ASSERT_TRUE(recompute);
      EXPECT_FALSE(recompute->replays.empty());
      EXPECT_LE(hybrid.predicted.step, recompute->predicted.step);
    }
  }
}

// What is reserved above the largest charge, of it.
TEST(Pages, WastesAtMostAPercentFromHalfOfNeedOn) {
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const std::uint64_t need = Liveness(trace).need().count();
    for (const char* machine_name : {"m40-12g", "h200-141g"}) {
      const Machine machine = uniform_machine(machine_name);
      for (const std::uint64_t percent : {90, 75, 50}) {
        const Bytes budget(need / 100 * percent);
        const Plan plan = make_pages_planner()->plan({.trace = trace, .machine = machine, .budget = budget}).value();
        EXPECT_LE((plan.top() + plan.slab).count() * 100, plan.predicted.peak.count() * 101)
            << name << " on " << machine_name << " at " << percent;
      }
    }
  }
}

TEST_P(PlannerContract, MovesNothingWhereAllFits) {
  const trace::Trace trace = with_backward_pass(layered_trace(200));
  const Machine machine = small_machine();
  const auto result = plan(trace, Bytes(Liveness(trace).need().count() * 5 / 4), machine);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->predicted.page_in > 0_B, GetParam().always_moves);
  EXPECT_EQ(result->predicted.page_out > 0_B, GetParam().always_moves);
  EXPECT_TRUE(GetParam().always_moves || result->predicted.step == result->predicted.compute);
}

TEST_P(PlannerContract, SaysHowManyBytesAreMissingAndWhere) {
  const trace::Trace trace = layered_trace(200);
  const Machine machine = small_machine();
  const Liveness liveness(trace);
  const Bytes below = liveness.floor() - 512_B;
  const auto result = plan(trace, below, machine);
  ASSERT_FALSE(result);
  if (GetParam().room == Room::kByRules) {
    EXPECT_GT(result.error().short_by, 0_B);
    return;
  }
  const Bytes enough = below + result.error().short_by;
  EXPECT_EQ(enough, GetParam().any_budget() ? liveness.floor() : liveness.need());
  EXPECT_EQ(result.error().op, GetParam().any_budget() ? liveness.floor_op() : liveness.need_op());
}

TEST_P(PlannerContract, DecidesTheSameEachTime) {
  const trace::Trace trace = layered_trace(300);
  const Machine machine = small_machine();
  const Bytes budget(Liveness(trace).need().count() * (GetParam().any_budget() ? 2 : 5) / 4);
  const auto first = plan(trace, budget, machine);
  const auto second = plan(trace, budget, machine);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->predicted == second->predicted);
  ASSERT_EQ(first->rows.size(), second->rows.size());
  for (std::size_t i = 0; i < first->rows.size(); ++i) ASSERT_EQ(first->rows[i].offset, second->rows[i].offset);
}

TEST_P(PlannerContract, KeepsTheReserveFreeWhereThereIsRoom) {
  const trace::Trace trace = layered_trace(300);
  const Machine machine = small_machine();
  const Bytes budget(Liveness(trace).need().count() * 5 / 4);
  const auto result = plan(trace, budget, machine, {.reserve = 0.02});
  ASSERT_TRUE(result);
  EXPECT_GE(result->reserve.count() + 4096, budget.count() / 50);
  EXPECT_LE(result->top() + result->slab + result->reserve, budget);
}

INSTANTIATE_TEST_SUITE_P(
    Planners, PlannerContract,
    testing::Values(PlannerCase{.name = "pages", .room = Room::kAlways},
                    PlannerCase{.name = "hybrid", .room = Room::kAlways, .replays = true},
                    PlannerCase{.name = "recompute", .room = Room::kByReplays, .moves = false, .replays = true},
                    PlannerCase{.name = "recompute_all", .room = Room::kAlways, .replays = true},
                    PlannerCase{.name = "lru", .room = Room::kAlways},
                    PlannerCase{.name = "resident", .room = Room::kMakesNone, .moves = false},
                    PlannerCase{.name = "meng", .room = Room::kByRules},
                    PlannerCase{.name = "vdnn", .room = Room::kByRules},
                    PlannerCase{.name = "vdnnpp", .room = Room::kByRules},
                    PlannerCase{.name = "accudnn", .room = Room::kByRules},
                    PlannerCase{.name = "layrub", .room = Room::kByRules, .always_moves = true},
                    PlannerCase{.name = "sqrt", .room = Room::kByRules, .moves = false, .replays = true},
                    PlannerCase{.name = "dtr", .room = Room::kByRules, .moves = false, .replays = true},
                    PlannerCase{.name = "monet", .room = Room::kByRules, .moves = false, .replays = true},
                    PlannerCase{.name = "capuchin", .room = Room::kByRules, .replays = true}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::planning
