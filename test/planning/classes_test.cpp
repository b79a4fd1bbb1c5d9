// Plans of several classes of windows under one boundary table: any of them may follow any other.
#include "tensorpager/planning/classes.h"

#include <gtest/gtest.h>

#include <sstream>

#include "../plan/synthetic_traces.h"
#include "../random_cases.h"
#include "../uniform_machines.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/sim/simulator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {

using namespace plan;
using namespace machine;
namespace {

using namespace base;

Machine slow_machine() {
  Machine machine;
  machine.out = machine.in = {.latency = Nanoseconds(500), .steps = {{.from = 0_B, .bytes_per_second = 1e9}}};
  return machine;
}

void expect_right(const trace::Trace& trace, const Plan& plan, const BoundaryTable& table, const Machine& machine) {
  const auto violations = validate(trace, plan);
  ASSERT_TRUE(violations.empty()) << violations.front();
  const auto at_boundary = validate_boundary(trace, plan, table);
  ASSERT_TRUE(at_boundary.empty()) << at_boundary.front();
  ASSERT_TRUE(sim::simulate(trace, plan, machine).measured == plan.predicted);
}

/// Read one after the other: of 512 KiB each op needs 64.
trace::Trace eight_weights() {
  trace::Trace trace = {.granule = 4_KiB};
  for (std::size_t i = 0; i < 8; ++i) {
    trace.storages.push_back({.bytes = 64_KiB, .entry = true});
    trace.ops.push_back({.name = "use", .reads = {storage(i)}, .time = Nanoseconds(50'000)});
  }
  return with_identities(trace);
}

TEST(Boundary, IsKeptByAllClassesOfRandomTraces) {
  const Machine machine = slow_machine();
  constexpr unsigned kTraces = random_cases(300, 15);
  unsigned with_entries = 0;
  for (unsigned seed = 1; seed <= kTraces; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace train = with_identities(random_trace(seed));
    const trace::Trace evaluate = other_class(train, seed);
    const Liveness liveness(train);
    const std::uint64_t floor = liveness.floor().count();
    const Bytes budget(floor + (liveness.need().count() - floor) * (seed % 5) / 4);
    const auto found = plan_classes({{.trace = train, .machine = machine, .budget = budget},
                                     {.trace = evaluate, .machine = machine, .budget = budget}});
    ASSERT_TRUE(found);
    ASSERT_EQ(found->plans.size(), 2u);
    expect_right(train, found->plans[0], found->table, machine);
    expect_right(evaluate, found->plans[1], found->table, machine);
    if (HasFatalFailure()) return;
    with_entries += found->table.entries.empty() ? 0 : 1;
  }
  EXPECT_GT(with_entries, kTraces / 2);
}

// A table from the hardest class costs the others little; an empty one costs much.
TEST(Boundary, OfTheHardestClassCostsLittle) {
  const trace::Trace train = with_identities(trace::read_trace_file(TENSORPAGER_TEST_DATA "/gpt2.trace"));
  const trace::Trace evaluate = other_class(train, 1);
  const Machine machine = uniform_machine("h200-141g");
  const Bytes budget(Liveness(train).need().count() * 3 / 4);
  const std::vector<Problem> problems = {{.trace = train, .machine = machine, .budget = budget},
                                         {.trace = evaluate, .machine = machine, .budget = budget}};
  const auto found = plan_classes(problems);
  ASSERT_TRUE(found);
  const BoundaryTable empty;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    expect_right(problems[i].trace, found->plans[i], found->table, machine);
    const auto seconds = [](const Plan& plan) { return static_cast<double>(plan.predicted.step.count()); };
    const Plan alone = make_pages_planner()->plan(problems[i]).value();
    EXPECT_LT(seconds(found->plans[i]), seconds(alone) * 1.1);
    Problem without = problems[i];
    without.boundary = &empty;
    EXPECT_LT(seconds(found->plans[i]), seconds(make_pages_planner()->plan(without).value()));
  }
}

TEST(Boundary, LargerThanABudgetIsHalvedUntilAllPlace) {
  const trace::Trace train = with_identities(layered_trace(300));
  const trace::Trace evaluate = other_class(train, 2);
  const Machine machine = slow_machine();
  const Liveness liveness(train);
  const Bytes large(liveness.need().count() * 9 / 10);
  const Bytes small(Liveness(evaluate).floor().count() * 11 / 10);
  const auto found = plan_classes({{.trace = train, .machine = machine, .budget = large},
                                   {.trace = evaluate, .machine = machine, .budget = small}});
  ASSERT_TRUE(found);
  const BoundaryTable own = boundary_of(train, make_pages_planner()->plan({train, machine, large}).value());
  EXPECT_LE(found->table.entries.size(), own.entries.size() / 2);
  expect_right(train, found->plans[0], found->table, machine);
  expect_right(evaluate, found->plans[1], found->table, machine);
}

TEST(Boundary, ThatDoesNotPlaceIsToldApartFromABudgetBelowTheFloor) {
  const trace::Trace trace = eight_weights();
  const Machine machine = slow_machine();
  const BoundaryTable table =
      boundary_of(trace, make_pages_planner()->plan({trace, machine, Liveness(trace).need()}).value());
  const Bytes floor = Liveness(trace).floor();
  const auto no_place = make_pages_planner()->plan({trace, machine, floor, {}, &table});
  ASSERT_FALSE(no_place);
  EXPECT_TRUE(no_place.error().for_boundary);
  const auto no_bytes = make_pages_planner()->plan({trace, machine, floor - 4_KiB, {}, &table});
  ASSERT_FALSE(no_bytes);
  EXPECT_FALSE(no_bytes.error().for_boundary);
  EXPECT_EQ(no_bytes.error().short_by, 4_KiB);
}

TEST(Boundary, MustBeOfStoragesThatTheTraceHas) {
  const trace::Trace trace = with_identities(layered_trace(60));
  const auto refuse = [&](const BoundaryTable& table, const std::string& text) {
    try {
      (void)offsets_in(table, trace);
      FAIL() << "was taken";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refuse({{{.identity = 99'999, .bytes = 20'480_B}}}, "identity 99999 does not live through the trace's window");
  refuse({{{.identity = 0, .bytes = 40'960_B}}}, "identity 0 has 40960 bytes there and 20480 in the trace");
  const BoundaryTable none;
  EXPECT_THROW((void)make_planner("lru")->plan({trace, slow_machine(), 1_GiB, {}, &none}), InvalidArgument);
}

TEST(Boundary, ChangedPlanIsFound) {
  const trace::Trace trace = eight_weights();
  const Machine machine = slow_machine();
  const Bytes budget(Liveness(trace).need().count() * 3 / 4);
  const auto found = plan_classes({{.trace = trace, .machine = machine, .budget = budget}});
  ASSERT_TRUE(found);
  ASSERT_FALSE(found->table.entries.empty());
  BoundaryTable table = found->table;
  table.entries.front().offset += 512;
  EXPECT_NE(validate_boundary(trace, found->plans[0], table).front().find("another offset"), std::string::npos);
  table = found->table;
  table.entries.pop_back();
  EXPECT_NE(validate_boundary(trace, found->plans[0], table).front().find("not in the table"), std::string::npos);
  Plan plan = found->plans[0];
  std::erase_if(plan.rows, [](const Row& row) { return row.fill == Fill::kBoundary; });
  EXPECT_NE(validate_boundary(trace, plan, found->table).front().find("does not come from the boundary"),
            std::string::npos);
}

// A window of another class may have written what comes from the boundary: it must not be dropped for clean.
TEST(Boundary, SharedIsTakenForDirty) {
  const trace::Trace trace = {
      .granule = 4_KiB,
      .storages = {{.bytes = 40_KiB, .entry = true, .identity = 1}},
      .ops = {{.name = "a", .reads = {storage(0)}}, {.name = "b"}, {.name = "c", .reads = {storage(0)}}}};
  Plan plan = {.budget = 40_KiB,
               .ops = 3,
               .rows = {{storage(0), 40_KiB, 0, 0, 0, 1, 0, Fill::kBoundary, Leave::kDrop},
                        {storage(0), 40_KiB, 0, 2, 2, 3, 0, Fill::kPageIn, Leave::kBoundary}}};
  EXPECT_TRUE(validate(trace, plan).empty());
  plan.shared_boundary = true;
  EXPECT_NE(validate(trace, plan).front().find("is dropped, and its bytes are nowhere else"), std::string::npos);
}

TEST(BoundaryFile, IsReadAsItWasWritten) {
  const BoundaryTable table = {{{.identity = 7, .bytes = 64_KiB, .offset = 0}, {3, 32_KiB, 65'536}}};
  std::istringstream in(write_boundary(table));
  EXPECT_EQ(read_boundary(in, "x"), table);
}

TEST(BoundaryFile, IsRefusedWithFileLineAndField) {
  const auto refuse = [](const std::string& text, const std::string& message) {
    std::istringstream in("tensorpager-boundary 1\n" + text);
    try {
      (void)read_boundary(in, "x");
      FAIL() << "was read";
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()), message);
    }
  };
  refuse("storage identity=1 bytes=9 offset=0\nstorage identity=1 bytes=9 offset=9\nend\n",
         "x:3: identity: is given twice");
  refuse("storage identity=1 bytes=9 offset=0\nstorage identity=2 bytes=9 offset=8\nend\n",
         "x:3: offset: is below the end of the storage before it");
  refuse("row 1\nend\n", "x:2: record: 'row' is none of storage, end");
  refuse("storage identity=1 bytes=9 offset=0\n", "x:3: end: the file ends without the record `end`: it is truncated");
}

}  // namespace
}  // namespace tensorpager::planning
