#include "tensorpager/planning/drop_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "../uniform_machines.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {
namespace {

trace::Trace resnet50() { return trace::read_trace_file(TENSORPAGER_TEST_DATA "/resnet50.trace"); }

std::vector<DropSearch::Choice> search(const trace::Trace& trace, base::Bytes budget,
                                       const Machine& machine = uniform_machine("m40-12g")) {
  const Options options{.reserve = 0, .techniques = {.annealing = 200'000}};
  const Problem problem{.trace = trace, .machine = machine, .budget = budget, .options = options};
  const Groundwork groundwork(problem);
  return DropSearch(groundwork, Means::kReplays).run();
}

// By bytes alone; offsets need a little more.
TEST(DropSearch, LeavesAPartOfTheBudgetForGapsBetweenBlocks) {
  const trace::Trace trace = resnet50();
  const std::uint64_t budget = Liveness(trace).need().count() * 6 / 10;
  const auto choices = search(trace, base::Bytes(budget));
  ASSERT_GT(choices.size(), 1u);
  std::vector<std::uint64_t> needs;
  for (const DropSearch::Choice& choice : choices)
    needs.push_back(Liveness(plan::rewrite(trace, choice.replays)->trace).need().count());
  EXPECT_LE(*std::ranges::max_element(needs), budget / 1000 * 995 + 1000);
  EXPECT_LE(*std::ranges::min_element(needs), budget / 1000 * 985 + 1000);
}

// Choices are judged on a copy of the window without names, by which ops have their classes.
TEST(DropSearch, JudgesEachClassOfOpsByItsRate) {
  const trace::Trace trace = resnet50();
  Machine machine = uniform_machine("m40-12g");
  machine.flop_rates.set(base::OpClass::kConvolution, trace::Precision::kFloat32, 1e11);
  const auto choices =
      search(trace, Liveness(trace).need() + base::Bytes(Liveness(trace).need().count() / 50), machine);
  ASSERT_FALSE(choices.empty());
  EXPECT_EQ(choices.front().step, 2 * machine.time_of_ops(trace)) << "with nothing dropped";
  EXPECT_GT(machine.time_of_ops(trace), 2 * uniform_machine("m40-12g").time_of_ops(trace));
}

// What stays from its first replay on would need more.
TEST(DropSearch, RebuildsAgainWhatThereIsNoRoomFor) {
  const trace::Trace trace = resnet50();
  const auto choices = search(trace, base::Bytes(Liveness(trace).need().count() / 3));
  ASSERT_FALSE(choices.empty());
  EXPECT_TRUE(std::ranges::any_of(choices.front().dropped, [](Drop drop) { return drop == Drop::kAgain; }));
}

}  // namespace
}  // namespace tensorpager::planning
