// Every technique of the pages planner has a switch. Whatever is off, the plan is right, and slower. What the switches
// of packing do is tested in packing_effort_test.cpp too.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "../plan/synthetic_traces.h"
#include "../uniform_machines.h"
#include "small_machine.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

/// Does not compile where there is another switch: it belongs into a list below, or into packing_effort_test.cpp.
[[maybe_unused]] void know_all_switches(const Techniques& techniques) {
  [[maybe_unused]] const auto& [early_page_outs, prefetch, tails, wrap, larger_first, longest_idle, feedback,
                                shorter_tails, over_transfers, early_online, compaction, packing, replays_for_less,
                                annealing] = techniques;
  [[maybe_unused]] const auto& [many_orders, ejection, repairs, looks, looks_each] = packing;
}

struct Switch {
  const char* name;
  unsigned percent;  // of need: where it matters
  void (*turn_off)(Techniques&);
};

class TechniqueOff : public testing::TestWithParam<Switch> {
 protected:
  /// Without the second rule of eviction, which makes up for some of those that are off.
  static Techniques with() { return {.longest_idle = false}; }
  static Techniques without() {
    Techniques techniques = with();
    GetParam().turn_off(techniques);
    return techniques;
  }
  static Plan plan(const trace::Trace& trace, const Machine& machine, base::Bytes budget,
                   const Techniques& techniques) {
    const auto result = make_pages_planner()->plan(
        {.trace = trace, .machine = machine, .budget = budget, .options = {.techniques = techniques}});
    const auto violations = validate(trace, result.value());
    EXPECT_TRUE(violations.empty()) << violations.front();
    return result.value();
  }
};

TEST_P(TechniqueOff, LeavesARightPlanThatIsSlower) {
  static const trace::Trace trace = layered_trace(600);
  static const Machine machine = uniform_machine("m40-12g");
  const base::Bytes budget(Liveness(trace).need().count() * GetParam().percent / 100);
  EXPECT_GT(plan(trace, machine, budget, without()).predicted.step,
            plan(trace, machine, budget, with()).predicted.step);
}

TEST_P(TechniqueOff, IsSlowerOnTheWholeOverRandomTraces) {
  const Machine machine = small_machine();
  double slower = 0;  // the sum of shares
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = random_trace(seed);
    const Liveness liveness(trace);
    const base::Bytes budget(liveness.floor().count() + (liveness.need() - liveness.floor()).count() * (seed % 5) / 5);
    const auto off = static_cast<double>(plan(trace, machine, budget, without()).predicted.step.count());
    const auto on = static_cast<double>(plan(trace, machine, budget, with()).predicted.step.count());
    slower += off / on - 1;
  }
  EXPECT_GT(slower, 0.0);
}

/// What the planner comes to over random traces and budgets.
struct Outcomes {
  std::vector<Plan> plans;
  std::set<Technique> techniques;

  explicit Outcomes(const Techniques& techniques_on) {
    const Machine machine = small_machine();
    for (unsigned seed = 1; seed <= 60; ++seed) {
      const trace::Trace trace = random_trace(seed);
      const Liveness liveness(trace);
      const base::Bytes spare = liveness.need() - liveness.floor();
      const base::Bytes budget(liveness.floor().count() + spare.count() * (seed % 5) / 5);
      plans.push_back(
          make_pages_planner()
              ->plan({.trace = trace, .machine = machine, .budget = budget, .options = {.techniques = techniques_on}})
              .value());
      EXPECT_TRUE(validate(trace, plans.back()).empty()) << "seed " << seed;
      techniques.insert(plans.back().technique);
    }
  }
  static const Outcomes& with_all() {
    static const Outcomes outcomes{Techniques()};
    return outcomes;
  }
  /// The sum of the shares by which plans are slower than those of `others`.
  double slower_than(const Outcomes& others) const {
    double sum = 0;
    for (std::size_t i = 0; i < plans.size(); ++i)
      sum += static_cast<double>(plans[i].predicted.step.count()) /
                 static_cast<double>(others.plans[i].predicted.step.count()) -
             1;
    return sum;
  }
  double waste() const {
    double sum = 0;
    for (const Plan& plan : plans)
      sum += static_cast<double>(plan.top().count()) / static_cast<double>(plan.predicted.peak.count());
    return sum;
  }
};

TEST(Plans, SayWhichTechniquePlacedThem) {
  const std::set<Technique> all = {
      Technique::kPacked,        Technique::kPackedForLess,      Technique::kShorterTails,
      Technique::kOverTransfers, Technique::kOverTransfersAgain, Technique::kOnlineByNextUse};
  EXPECT_EQ(Outcomes::with_all().techniques, all);
}

TEST(Feedback, PlansForLessThanTheBudget) {
  const Outcomes off({.feedback = false});
  EXPECT_FALSE(off.techniques.contains(Technique::kPackedForLess));
}

TEST(ShorterTails, AreQuickerOnTheWhole) {
  const Outcomes off({.shorter_tails = false});
  EXPECT_FALSE(off.techniques.contains(Technique::kShorterTails));
  EXPECT_GT(off.slower_than(Outcomes::with_all()), 0.0);
}

TEST(OverTransfers, IsQuickerOnTheWhole) {
  const Outcomes off({.over_transfers = false});
  EXPECT_FALSE(off.techniques.contains(Technique::kOverTransfers));
  EXPECT_FALSE(off.techniques.contains(Technique::kOverTransfersAgain));
  EXPECT_GT(off.slower_than(Outcomes::with_all()), 0.0);
}

TEST(LongestIdle, IsQuickerOnTheWhole) {
  const Outcomes off({.longest_idle = false});
  EXPECT_GT(off.slower_than(Outcomes::with_all()), 0.0);
}

TEST(EarlyOnline, IsQuickerOnTheWhole) {
  const Outcomes off({.early_online = false});
  EXPECT_GT(off.slower_than(Outcomes::with_all()), 0.0);
}

TEST(Compaction, WastesLessOnTheWhole) {
  const Outcomes off({.compaction = false});
  EXPECT_GT(off.waste(), Outcomes::with_all().waste());
}

// Two small storages for each large one, all used once forwards and once backwards.
TEST(LargerFirst, IsQuickerWhereHandlingEachTransferTakesOfCompute) {
  trace::Trace trace = {.granule = base::kPage};
  constexpr std::size_t kStorages = 60;
  const auto use = [&](std::size_t i) {
    trace.ops.push_back({.name = "use", .reads = {storage(i)}, .time = std::chrono::milliseconds(1)});
  };
  for (std::size_t i = 0; i < kStorages; ++i) {
    trace.storages.push_back({.bytes = base::Bytes((i % 3 == 0 ? 64 : 8) * base::kPage.count()), .entry = true});
    use(i);
  }
  for (std::size_t i = kStorages; i-- > 0;) use(i);
  Machine machine = uniform_machine("m40-12g");
  machine.out.handling = machine.in.handling = std::chrono::microseconds(100);
  const auto step = [&](bool larger_first) {
    const base::Bytes budget(Liveness(trace).need().count() / 2);
    const Options options{.techniques = {.larger_first = larger_first}};
    return make_pages_planner()
        ->plan({.trace = trace, .machine = machine, .budget = budget, .options = options})
        ->predicted.step;
  };
  EXPECT_LT(step(true), step(false));
}

TEST(Annealing, IsQuickerOnTheWhole) {
  const trace::Trace trace = trace::read_trace_file(TENSORPAGER_TEST_DATA "/resnet50.trace");
  const Machine machine = uniform_machine("h200-141g");
  const base::Bytes budget(Liveness(trace).need().count() / 3);
  const auto step = [&](std::size_t annealing) {
    const Options options{.techniques = {.annealing = annealing}};
    return make_hybrid_planner()
        ->plan({.trace = trace, .machine = machine, .budget = budget, .options = options})
        ->predicted.step;
  };
  EXPECT_LT(step(500'000), step(0));
}

// What is dropped to fit into the budget by bytes alone has no place in it: only replays alone, which drop more, had
// one.
TEST(Choices, LeaveRoomForGapsBetweenBlocks) {
  const trace::Trace trace = trace::read_trace_file(TENSORPAGER_TEST_DATA "/gpt2.trace");
  const Machine machine = uniform_machine("h200-141g");
  const base::Bytes budget(Liveness(trace).need().count() / 2);
  const auto step = [&](const char* planner) {
    const Options options{.link_share = 1, .reserve = 0, .techniques = {.annealing = 500'000}};
    const Problem problem{.trace = trace, .machine = machine, .budget = budget, .options = options};
    return make_planner(planner)->plan(problem)->predicted.step;
  };
  EXPECT_LT(step("hybrid"), step("recompute") * 99 / 100);
}

// Near the floor blocks leave wide gaps: what is dropped to fit into a little less than the budget waits for room.
TEST(ReplaysForLess, AreQuickerNearTheFloor) {
  const trace::Trace trace = trace::read_trace_file(TENSORPAGER_TEST_DATA "/unet.trace");
  const Machine machine = uniform_machine("h200-141g");
  const base::Bytes budget(Liveness(trace).need().count() / 4);
  const auto step = [&](bool replays_for_less) {
    const Options options{.link_share = 1, .reserve = 0, .techniques = {.replays_for_less = replays_for_less}};
    return make_hybrid_planner()
        ->plan({.trace = trace, .machine = machine, .budget = budget, .options = options})
        ->predicted.step;
  };
  EXPECT_LT(step(true), step(false));
}

TEST(LooksEach, IsEffortThatGrowsWithThePlan) {
  const trace::Trace trace = layered_trace(200);
  const Machine machine = uniform_machine("m40-12g");
  const base::Bytes budget(Liveness(trace).need().count() / 3);
  const auto step = [&](std::uint64_t looks_each) {
    const Options options{.techniques = {.packing = {.looks = 0, .looks_each = looks_each}}};
    return make_pages_planner()
        ->plan({.trace = trace, .machine = machine, .budget = budget, .options = options})
        ->predicted.step;
  };
  EXPECT_LT(step(4000), step(0));
}

INSTANTIATE_TEST_SUITE_P(Switches, TechniqueOff,
                         testing::Values(Switch{"EarlyPageOuts", 30,
                                                [](Techniques& use) { use.early_page_outs = false; }},
                                         Switch{"Prefetch", 30, [](Techniques& use) { use.prefetch = false; }},
                                         Switch{"Tails", 30, [](Techniques& use) { use.tails = false; }},
                                         Switch{"Wrap", 90, [](Techniques& use) { use.wrap = false; }},
                                         Switch{"Feedback", 30, [](Techniques& use) { use.feedback = false; }},
                                         Switch{"Ejection", 30, [](Techniques& use) { use.packing.ejection = false; }},
                                         Switch{"Looks", 30, [](Techniques& use) { use.packing.looks = 0; }}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::planning
