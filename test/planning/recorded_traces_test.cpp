// Traces as `tensorpager trace` wrote them for programs of test/programs.
#include <gtest/gtest.h>

#include <string>

#include "../uniform_machines.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/sim/simulator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

std::string path_of(const std::string& name) { return TENSORPAGER_TEST_DATA "/recorded/" + name + ".trace"; }

class RecordedTraces : public testing::TestWithParam<const char*> {
 protected:
  trace::Trace trace_ = trace::read_trace_file(path_of(GetParam()));
};

TEST_P(RecordedTraces, ArePlannedFromThreeQuartersToAQuarterOfTheirNeed) {
  const Liveness liveness(trace_);
  const Machine machine = uniform_machine("m40-12g");
  for (const std::uint64_t percent : {75, 50, 33, 25}) {
    const base::Bytes budget(liveness.need().count() * percent / 100);
    const auto result = make_planner("pages")->plan({.trace = trace_, .machine = machine, .budget = budget});
    ASSERT_TRUE(result) << percent;
    EXPECT_EQ(validate(trace_, result.value()), std::vector<std::string>()) << percent;
    const sim::Outcome outcome = sim::simulate(trace_, result.value(), machine);
    EXPECT_LE(outcome.measured.peak, budget) << percent;
    EXPECT_GT(outcome.measured.page_out, base::Bytes(0)) << percent;
  }
}

TEST_P(RecordedTraces, SayWhatEachOpTakesAndMoves) {
  bool has_arithmetic = false;
  for (const trace::Op& op : trace_.ops) {
    EXPECT_GT(op.time.count(), 0) << op.name;
    EXPECT_GT(op.moved, base::Bytes(0)) << op.name;
    has_arithmetic |= op.flops > 0;
  }
  EXPECT_TRUE(has_arithmetic);
}

INSTANTIATE_TEST_SUITE_P(Programs, RecordedTraces, testing::Values("resnet", "gpt", "lstm"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tensorpager::planning
