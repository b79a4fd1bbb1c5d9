// What the pager makes of plans, on a virtual clock.
#include "tensorpager/sim/pager_run.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "../plan/synthetic_traces.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::sim {
namespace {

using namespace base;
using plan::Machine;
using plan::Nanoseconds;
using plan::Plan;

Machine small_machine(Nanoseconds handling = Nanoseconds(0)) {
  const plan::Link link{
      .latency = Nanoseconds(500), .handling = handling, .steps = {{.from = 0_B, .bytes_per_second = 1e9}}};
  Machine machine;
  machine.name = "small";
  machine.out = machine.in = link;
  return machine;
}

Plan make_plan(const trace::Trace& trace, Bytes budget, const Machine& machine, const char* planner = "pages") {
  return plan::make_planner(planner)->plan({.trace = trace, .machine = machine, .budget = budget}).value();
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSeeds = 100;
#else
constexpr unsigned kSeeds = 1000;
#endif

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
  const Machine machine = plan::named_machine("m40-12g");
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

/// The window with so many more ops, each of which reads two live storages and makes one that lives for some ops; and
/// without as many that make and free nothing, where there are any.
trace::Trace with_misses(const trace::Trace& window, unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<trace::StorageId> alive;
  for (std::uint32_t i = 0; i < window.storages.size(); ++i)
    if (window.storages[i].entry) alive.push_back(trace::StorageId{i});
  trace::Trace other{.granule = window.granule, .storages = window.storages, .ops = {}};
  std::size_t left_out = 0;
  std::size_t next = below(window.ops.size() / count);
  std::vector<std::pair<std::size_t, trace::StorageId>> foreign;  // when it dies
  for (std::size_t i = 0; i < window.ops.size(); ++i) {
    const trace::Op& op = window.ops[i];
    const bool may_be_left_out = op.births.empty() && op.deaths.empty() && i + 1 < window.ops.size();
    if (may_be_left_out && left_out < count && below(8) == 0) {
      ++left_out;
    } else {
      other.ops.push_back(op);
    }
    for (const trace::StorageId id : op.births) alive.push_back(id);
    for (const trace::StorageId id : op.deaths) std::erase(alive, id);
    if (i == next && !alive.empty() && i + 1 < window.ops.size()) {
      next += 1 + below(2 * window.ops.size() / count);
      foreign.emplace_back(i + 1 + below(50), trace::StorageId{static_cast<std::uint32_t>(other.storages.size())});
      other.storages.push_back({.bytes = Bytes(20'000 + below(100'000))});
      other.ops.push_back({.name = "unknown",
                           .reads = {alive[below(alive.size())], alive[below(alive.size())]},
                           .births = {foreign.back().second},
                           .time = std::chrono::microseconds(50)});
    }
    std::erase_if(foreign, [&](const auto& one) {
      const bool dies = i >= one.first || i + 1 == window.ops.size();
      if (dies) other.ops.back().deaths.push_back(one.second);
      return dies;
    });
  }
  return other;
}

// Where ops come and go the window costs more, and soon all is again as promised.
TEST(PagerRun, FindsItsWayBackAfterMisses) {
  const Machine machine = plan::named_machine("m40-12g");
  for (const char* name : {"resnet50", "gpt2", "unet"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Plan plan = make_plan(trace, Bytes(plan::Liveness(trace).need().count() / 2), machine);
    PagerRun run(trace, plan, machine);
    for (unsigned seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      run.run(trace);
      const trace::Trace other = with_misses(trace, seed, 5);
      ASSERT_NO_THROW(trace::check(other));
      const PagerRun::Window missed = run.run(other);
      EXPECT_GE(missed.misses, 5u);
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

// This binding moves no block for another, so one that came elsewhere, and is pinned in the middle of a small arena,
// may leave no place for the next.
TEST(PagerRun, SurvivesMissesInRandomTraces) {
  const Machine machine = small_machine();
  std::uint64_t refused = 0;
  for (unsigned seed = 1; seed <= kSeeds / 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = plan::random_trace(seed);
    if (trace.ops.size() < 10) continue;
    const plan::Liveness liveness(trace);
    const std::uint64_t floor = liveness.floor().count();
    const Plan plan = make_plan(trace, Bytes(floor + (liveness.need().count() - floor) / 2), machine);
    PagerRun run(trace, plan, machine);
    run.run(trace);
    try {
      run.run(with_misses(trace, seed, 3));
      for (int window = 0; window < 2; ++window) run.run(trace);
      EXPECT_EQ(run.run(trace).misses, 0u);
    } catch (const OverBudget& error) {
      ++refused;
      EXPECT_LE(error.asked() + error.pinned(), error.budget()) << "bytes were there, but in no one place";
    }
  }
  EXPECT_LE(refused, kSeeds / 4 / 50);
}

INSTANTIATE_TEST_SUITE_P(Planners, PagerRunOfPlanner, testing::Values("pages", "lru"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace tensorpager::sim
