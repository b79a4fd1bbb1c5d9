#include "tensorpager/report/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "../plan/synthetic_traces.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/sim/simulator.h"

namespace tensorpager::report {
namespace {

using machine::Nanoseconds;

class Report : public testing::Test {
 protected:
  trace::Trace trace = plan::layered_trace(300);
  machine::Machine machine = machine::named_machine("h200-141g");
  plan::Liveness liveness{trace};
  plan::Plan plan =
      planning::make_pages_planner()->plan({trace, machine, base::Bytes(liveness.need().count() / 2)}).value();
  sim::Outcome outcome = sim::simulate(trace, plan, machine);
  Subject subject{trace, plan, machine, liveness, outcome.measured, outcome.stalls};
};

TEST_F(Report, SaysWhatThePlanPromises) {
  const std::string text = write_text(subject);
  EXPECT_NE(text.find(base::format_bytes(plan.budget)), std::string::npos);
  EXPECT_NE(text.find("\npeak: "), std::string::npos);
  EXPECT_NE(text.find("\nmost expensive decisions, of "), std::string::npos);
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

}  // namespace
}  // namespace tensorpager::report
