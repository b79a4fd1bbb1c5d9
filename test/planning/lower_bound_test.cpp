#include "tensorpager/planning/lower_bound.h"

#include <gtest/gtest.h>

#include "../plan/synthetic_traces.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;
using namespace std::chrono_literals;

Machine machine_with(double bytes_per_second) {
  const Link link{.latency = 0ns, .steps = {{.from = 0_B, .bytes_per_second = bytes_per_second}}};
  Machine machine;
  machine.out = machine.in = link;
  return machine;
}

// 0 and 1, of 100,000 bytes each, are born at 0 and 1 and read at 3 and 4; only one fits at op 2 beside the 100,000 of
// op 2.
TEST(LowerBound, IsTheTimeOfTheBytesThatMustGoAndComeBack) {
  const Bytes size = Bytes(98304);
  const trace::Trace trace = {.granule = 4_KiB,
                              .storages = {{.bytes = size}, {.bytes = size}, {.bytes = size}},
                              .ops = {{.name = "a", .births = {storage(0)}, .time = 1us},
                                      {.name = "b", .births = {storage(1)}, .time = 1us},
                                      {.name = "c", .births = {storage(2)}, .deaths = {storage(2)}, .time = 1us},
                                      {.name = "d", .reads = {storage(1)}, .deaths = {storage(1)}, .time = 1us},
                                      {.name = "e", .reads = {storage(0)}, .deaths = {storage(0)}, .time = 1us}}};
  const Liveness liveness(trace);
  const Machine machine = machine_with(98304e5);  // a storage in 10 us
  const std::vector<Nanoseconds> times = op_times(trace, machine);
  // 0 leaves from the end of a: at 11 us; c, then 0 comes back until 22 us, e until 23 us.
  EXPECT_EQ(lower_bound(liveness, times, machine, liveness.need() - size), 23us);
  EXPECT_EQ(lower_bound(liveness, times, machine, liveness.need()), 5us);
  const auto plan = make_planner("pages")->plan({.trace = trace,
                                                 .machine = machine,
                                                 .budget = liveness.need() - size,
                                                 .options = {.link_share = 1, .reserve = 0}});
  EXPECT_EQ(plan->predicted.step, 23us);
}

TEST(LowerBound, IsNotAboveAnyPlan) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    const trace::Trace trace = random_trace(seed);
    const Liveness liveness(trace);
    const Machine machine = machine_with(seed % 2 == 0 ? 1e9 : 20e9);
    const std::vector<Nanoseconds> times = op_times(trace, machine);
    Nanoseconds compute{0};
    for (const Nanoseconds time : times) compute += time;
    const std::uint64_t floor = liveness.floor().count();
    const Bytes budget(floor + (liveness.need().count() - floor) * (seed % 5) / 5);
    const Nanoseconds bound = lower_bound(liveness, times, machine, budget);
    ASSERT_GE(bound, compute);
    for (const char* planner : {"pages", "lru"}) {
      const auto plan = make_planner(planner)->plan(
          {.trace = trace, .machine = machine, .budget = budget, .options = {.link_share = 1, .reserve = 0}});
      ASSERT_TRUE(plan);
      ASSERT_LE(bound, plan->predicted.step) << "seed " << seed << " " << planner;
    }
  }
}

}  // namespace
}  // namespace tensorpager::planning
