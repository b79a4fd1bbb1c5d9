#include "tensorpager/report/report.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <sstream>

#include "../plan/synthetic_traces.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/planning/recomputation.h"
#include "tensorpager/sim/simulator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::report {
namespace {

using machine::Nanoseconds;

class Report : public testing::Test {
 protected:
  plan::Rewriting window = plan::rewrite(plan::layered_trace(300), {}).value();
  const trace::Trace& trace = window.trace;
  machine::Machine machine = machine::named_machine("h200-141g");
  plan::Liveness liveness{trace};
  plan::Plan plan =
      planning::make_pages_planner()->plan({trace, machine, base::Bytes(liveness.need().count() / 2)}).value();
  sim::Outcome outcome = sim::simulate(trace, plan, machine);
  std::vector<Rebuild> rebuilds;
  Subject subject{window, plan, machine, liveness, outcome.measured, outcome.stalls, rebuilds};
};

TEST_F(Report, SaysWhatThePlanPromises) {
  const std::string text = write_text(subject);
  EXPECT_NE(text.find(base::format_bytes(plan.budget)), std::string::npos);
  EXPECT_NE(text.find("\npeak: "), std::string::npos);
  EXPECT_NE(text.find("\nmost expensive evictions, of "), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST_F(Report, NamesTheOpThatStallsTheLongest) {
  ASSERT_FALSE(outcome.stalls.empty());
  std::vector<Nanoseconds> by_op(trace.ops.size() + 1);
  for (const plan::Stall& stall : outcome.stalls) by_op[stall.op] += stall.time;
  const auto worst = std::ranges::max_element(by_op) - by_op.begin();
  EXPECT_NE(write_text(subject).find("op " + std::to_string(worst) + " ("), std::string::npos);
}

TEST_F(Report, IsTheSameEachTime) {
  EXPECT_EQ(write_text(subject), write_text(subject));
  EXPECT_EQ(write_svg(subject), write_svg(subject));
}

TEST_F(Report, EscapesWhatNamesMayHoldInThePicture) {
  plan.machine = "<&\">";
  const std::string picture = write_svg(subject);
  EXPECT_TRUE(picture.starts_with("<svg") || picture.starts_with("<?xml")) << picture.substr(0, 60);
  EXPECT_EQ(picture.find("<&"), std::string::npos);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t at = picture.find(what); at != std::string::npos; at = picture.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<text"), count("</text>"));
}

TEST_F(Report, ShowsAPlanWithoutStallsToo) {
  plan =
      planning::make_resident_planner()->plan({trace, machine, base::Bytes(liveness.need().count() * 5 / 4)}).value();
  outcome = sim::simulate(trace, plan, machine);
  const std::string text = write_text(subject);
  EXPECT_TRUE(outcome.stalls.empty());
  EXPECT_NE(text.find("\npeak: "), std::string::npos);
}

class ReportOfReplays : public testing::Test {
 protected:
  trace::Trace program = trace::read_trace_file(TENSORPAGER_TEST_DATA "/resnet50.trace");
  machine::Machine machine = machine::named_machine("m40-12g");
  plan::Plan plan = planning::make_hybrid_planner()
                        ->plan({.trace = program,
                                .machine = machine,
                                .budget = base::Bytes(plan::Liveness(program).need().count() / 3),
                                .options = {.techniques = {.annealing = 0}}})
                        .value();
  plan::Rewriting window = plan::rewrite(program, plan.replays).value();
  plan::Liveness liveness{window.trace};
  sim::Outcome outcome = sim::simulate(program, plan, machine);
  std::vector<Rebuild> rebuilds;
  Subject subject{window, plan, machine, liveness, outcome.measured, outcome.stalls, rebuilds};

  void SetUp() override {
    const plan::Liveness plain(program);
    const planning::Recomputation recomputation(program, plain, plan::op_times(program, machine));
    for (const planning::Droppable& one : recomputation.droppable())
      rebuilds.push_back({one.storage, one.from, one.to, one.cost});
  }
};

TEST_F(ReportOfReplays, ListsWhatIsRebuiltByWhatItCosts) {
  std::map<std::uint32_t, Nanoseconds> cost;  // by the op before which replays run
  for (const plan::Replay& replay : plan.replays) cost[replay.before] += machine.time_of(program.ops[replay.op]);
  const std::string text = write_text(subject);
  const std::size_t at = text.find("\nmost expensive rebuilds, of " + std::to_string(cost.size()) + " before an op:\n");
  ASSERT_NE(at, std::string::npos) << text;
  const auto most = std::ranges::max_element(cost, {}, [](const auto& one) { return one.second; });
  std::array<char, 32> shown{};
  std::snprintf(shown.data(), shown.size(), "%.3f ms", static_cast<double>(most->second.count()) / 1e6);
  const std::string list = text.substr(text.find(":\n", at) + 2);
  EXPECT_TRUE(list.substr(list.find_first_not_of(' ')).starts_with(shown.data())) << list;
  EXPECT_NE(list.find("paging would take "), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST_F(ReportOfReplays, SaysWhatRebuildingWouldHaveTaken) {
  EXPECT_NE(write_text(subject).find("rebuilding it would take "), std::string::npos);
  rebuilds.clear();
  const std::string text = write_text(subject);
  EXPECT_EQ(text.find("rebuilding"), std::string::npos);
  EXPECT_NE(text.find("it cannot be rebuilt"), std::string::npos);
}

}  // namespace
}  // namespace tensorpager::report
