// What the planners of the papers decide, on a chain: each op of the forward pass makes a map from the one before, and
// the backward pass uses them in the opposite order. planner_contract_test.cpp has what all planners must do.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "../uniform_machines.h"
#include "small_machine.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {

using namespace plan;
namespace {

using trace::index;

constexpr base::Bytes kMap(1'000'000);  // takes 1 ms on a link of the small machine

struct Chain {
  std::uint32_t layers = 8;
  Nanoseconds op_time = std::chrono::milliseconds(1);
  const char* name = "convolution";
};

/// Storage 0 is the input, an entry. Op i makes map i + 1, and op 2 * layers - 1 - i reads it.
trace::Trace make_chain(const Chain& chain) {
  trace::Trace trace{.granule = base::Bytes(512), .storages = {{.bytes = kMap, .entry = true}}};
  for (std::uint32_t i = 0; i < chain.layers; ++i) {
    trace.storages.push_back({.bytes = kMap});
    trace.ops.push_back({.name = chain.name,
                         .reads = {StorageId{i}},
                         .births = {StorageId{i + 1}},
                         .time = chain.op_time,
                         .purity = base::Purity::kPure});
  }
  for (std::uint32_t i = chain.layers; i > 0; --i) {
    trace.ops.push_back({.name = "backward",
                         .reads = {StorageId{i}},
                         .deaths = {StorageId{i}},
                         .time = chain.op_time,
                         .backward = true});
  }
  trace::check(trace);
  return trace;
}

Plan plan_for_maps(const char* planner, const trace::Trace& trace, std::uint64_t maps) {
  const Machine machine = small_machine();
  // Some bytes more, as blocks are whole granules.
  const base::Bytes budget(maps * kMap.count() + 10'000);
  Plan plan = make_planner(planner)->plan({.trace = trace, .machine = machine, .budget = budget}).value();
  EXPECT_TRUE(validate(trace, plan).empty());
  return plan;
}

std::set<std::uint32_t> paged(const Plan& plan) {
  std::set<std::uint32_t> storages;
  for (const Row& row : plan.rows) {
    if (row.leave == Leave::kPageOut) storages.insert(index(row.storage));
  }
  return storages;
}

TEST(FeatureMaps, AreMadeInTheForwardPassAndReadInTheBackwardPass) {
  trace::Trace trace = make_chain({.layers = 3});
  const auto maps = feature_maps(trace, Liveness(trace));
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(index(maps[0].storage), 1u);  // the input is not one
  EXPECT_EQ(maps[0].birth, 0u);
  EXPECT_EQ(maps[0].last_forward, 1u);
  EXPECT_EQ(maps[0].first_backward, 5u);
  EXPECT_TRUE(maps[0].into_convolution);
  EXPECT_FALSE(maps[2].into_convolution);
  for (trace::Op& op : trace.ops) op.backward = false;
  EXPECT_TRUE(feature_maps(trace, Liveness(trace)).empty());
}

TEST(Meng, SwapsTheMapsThatAreIdleForLongest) {
  const trace::Trace trace = make_chain({});
  EXPECT_EQ(paged(plan_for_maps("meng", trace, 7)), (std::set<std::uint32_t>{1, 2}));
  EXPECT_EQ(paged(plan_for_maps("meng", trace, 5)), (std::set<std::uint32_t>{1, 2, 3, 4}));
}

TEST(Vdnn, WaitsForEachPageOutAndItsSuccessorDoesNot) {
  trace::Trace trace = make_chain({.layers = 16});
  // On the whole page-outs take less time than ops, but not in each layer.
  for (std::uint32_t op = 0; op < 16; ++op) trace.ops[op].time = std::chrono::microseconds(op % 2 == 0 ? 200 : 2000);
  const Plan vdnn = plan_for_maps("vdnn", trace, 8);
  const Plan vdnnpp = plan_for_maps("vdnnpp", trace, 8);
  EXPECT_EQ(paged(vdnn), paged(vdnnpp));
  EXPECT_GT(vdnn.predicted.step, vdnnpp.predicted.step + 6 * std::chrono::microseconds(800));
}

TEST(Vdnn, OffloadsTheInputsOfConvolutionsWhereThatIsEnough) {
  trace::Trace trace = make_chain({.layers = 12, .op_time = std::chrono::milliseconds(4)});
  for (std::uint32_t op = 0; op < 12; op += 2) trace.ops[op].name = "relu";
  EXPECT_EQ(paged(plan_for_maps("vdnnpp", trace, 9)), (std::set<std::uint32_t>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(paged(plan_for_maps("vdnnpp", trace, 5)).size(), 12u);
  EXPECT_TRUE(paged(plan_for_maps("vdnnpp", trace, 14)).empty());
}

TEST(Layrub, SwapsEveryMapWhateverTheBudget) {
  const trace::Trace trace = make_chain({.layers = 12, .op_time = std::chrono::milliseconds(4)});
  EXPECT_EQ(paged(plan_for_maps("layrub", trace, 20)).size(), 12u);
  EXPECT_EQ(paged(plan_for_maps("layrub", trace, 5)).size(), 12u);
}

TEST(Accudnn, IsNotSlowerThanToSwapWhatIsIdleForLongest) {
  for (const char* name : {"resnet50", "unet"}) {
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Machine machine = uniform_machine("m40-12g");
    const base::Bytes budget(Liveness(trace).need().count() / 2);
    const Problem problem{.trace = trace, .machine = machine, .budget = budget};
    EXPECT_LE(make_planner("accudnn")->plan(problem)->predicted.step,
              make_planner("meng")->plan(problem)->predicted.step)
        << name;
  }
}

TEST(Accudnn, KeepsWhatItNeedNotSwap) {
  trace::Trace trace = make_chain({.op_time = std::chrono::microseconds(100)});
  trace.storages[3].bytes = base::Bytes(3 * kMap.count());
  // 11 maps' bytes: the first two are not enough, and the third is.
  EXPECT_EQ(paged(plan_for_maps("meng", trace, 8)), (std::set<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(paged(plan_for_maps("accudnn", trace, 8)), (std::set<std::uint32_t>{3}));
}

TEST(Sqrt, RunsEachOpAtMostTwiceInAboutTwoRootsOfTheMemory) {
  const trace::Trace trace = make_chain({.layers = 64});
  const Plan plan = plan_for_maps("sqrt", trace, 2 * 8 + 4);
  EXPECT_TRUE(paged(plan).empty());
  EXPECT_GE(plan.replays.size(), 64u - 20);
  std::set<std::uint32_t> ops;
  for (const Replay& replay : plan.replays) EXPECT_TRUE(ops.insert(replay.op).second);
}

TEST(Dtr, DropsWhatCostsLeast) {
  trace::Trace trace = make_chain({});
  trace.ops[2].time = std::chrono::microseconds(1);  // makes map 3
  const Plan plan = plan_for_maps("dtr", trace, 8);
  ASSERT_EQ(plan.replays.size(), 1u);
  EXPECT_EQ(plan.replays.front().op, 2u);
}

TEST(Dtr, CountsTheDroppedNeighbours) {
  // Maps 3 and 5 are cheap, and 4 is almost as cheap; but next to those two it costs more than map 1.
  trace::Trace trace = make_chain({.layers = 10});
  const auto cost = [&](std::uint32_t map, int microseconds) {
    trace.ops[map - 1].time = std::chrono::microseconds(microseconds);
  };
  cost(1, 25), cost(3, 10), cost(4, 12), cost(5, 10);
  std::set<std::uint32_t> rebuilt;
  for (const Replay& replay : plan_for_maps("dtr", trace, 8).replays) rebuilt.insert(replay.op + 1);
  EXPECT_EQ(rebuilt, (std::set<std::uint32_t>{1, 3, 5}));
}

TEST(Monet, DropsTheCheapestThatAreEnough) {
  // Two maps have to go; the replays of maps 3 and 5 are cheap, and all others are as expensive as each other.
  trace::Trace trace = make_chain({.layers = 10});
  trace.ops[2].time = std::chrono::microseconds(10);
  trace.ops[4].time = std::chrono::microseconds(20);
  std::set<std::uint32_t> rebuilt;
  for (const Replay& replay : plan_for_maps("monet", trace, 9).replays) rebuilt.insert(replay.op + 1);
  EXPECT_EQ(rebuilt, (std::set<std::uint32_t>{3, 5}));
}

TEST(Monet, CountsTheRoomThatReplaysTake) {
  const trace::Trace trace = trace::read_trace_file(TENSORPAGER_TEST_DATA "/resnet50.trace");
  const Machine machine = uniform_machine("m40-12g");
  const base::Bytes budget(Liveness(trace).need().count() / 3);
  const Options options{.link_share = 1, .reserve = 0};
  const Plan plan =
      make_planner("monet")->plan({.trace = trace, .machine = machine, .budget = budget, .options = options}).value();
  // To rebuild all arguments for each replay costs half of a step.
  EXPECT_LT(plan.predicted.step, machine.time_of_ops(trace) * 5 / 4);
}

TEST(Capuchin, SwapsWhatASwapHidesAndRecomputesWhatCostsLess) {
  const trace::Trace slow_ops = make_chain({.layers = 16, .op_time = std::chrono::milliseconds(5)});
  const Plan hidden = plan_for_maps("capuchin", slow_ops, 10);
  EXPECT_TRUE(hidden.replays.empty());
  EXPECT_FALSE(paged(hidden).empty());
  EXPECT_EQ(hidden.predicted.step, hidden.predicted.compute);
  const trace::Trace fast_ops = make_chain({.layers = 16, .op_time = std::chrono::microseconds(20)});
  const Plan exposed = plan_for_maps("capuchin", fast_ops, 10);
  EXPECT_FALSE(exposed.replays.empty());
  EXPECT_TRUE(paged(exposed).empty());
}

TEST(Completion, RefusesAnAbsenceAfterAnOpThatDoesNotUseTheStorage) {
  const trace::Trace trace = make_chain({});
  const Machine machine = small_machine();
  const Problem problem{.trace = trace, .machine = machine, .budget = base::Bytes(20'000'000)};
  EXPECT_THROW(Completion(problem, {.absences = {{.storage = StorageId{1}, .after = 5}}}), base::InvalidArgument);
}

TEST(Completion, SubmitsPageInsOneAhead) {
  const trace::Trace trace = make_chain({.layers = 6, .op_time = std::chrono::milliseconds(4)});
  const Machine machine = small_machine();
  const Problem problem{.trace = trace, .machine = machine, .budget = base::Bytes(20'000'000)};
  Decisions decisions{.page_ins = PageIns::kOneAhead};
  for (const std::uint32_t map : {1U, 3U}) decisions.absences.push_back({.storage = StorageId{map}, .after = map});
  const Plan plan = Completion(problem, decisions).plan("test").value();
  for (const Row& row : plan.rows) {
    if (row.fill != Fill::kPageIn) continue;
    // Map 3 is the first that returns, so nothing is ahead of it; map 1 is submitted when op 9 begins, which needs 3.
    EXPECT_EQ(row.need, index(row.storage) == 3 ? 9u : 11u);
    EXPECT_EQ(row.begin, 9u);
  }
}

TEST(Completion, SaysByHowMuchDecisionsExceedTheSpace) {
  const trace::Trace trace = make_chain({});
  const Machine machine = small_machine();
  const base::Bytes budget(7 * kMap.count());
  const Completion completion({.trace = trace, .machine = machine, .budget = budget}, {});
  ASSERT_TRUE(completion.excess());
  EXPECT_NEAR(static_cast<double>(completion.excess()->short_by.count()), 2.0 * kMap.count(), 10'000);
  EXPECT_EQ(completion.excess()->op, 7u);  // where the last map is made
}

}  // namespace
}  // namespace tensorpager::planning
