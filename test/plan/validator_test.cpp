#include "tensorpager/plan/validator.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "../random_cases.h"
#include "synthetic_traces.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::plan {

using namespace machine;
using namespace planning;
namespace {

using namespace base;

// 0 is born at 0 and read at 2; 1 lives at op 1 only. Both together are too much for the budget, so 0 is below at op 1.
//
// offset  0        1        2
//      0  [0 born] [1]      [0 page-in]
trace::Trace trace_by_hand() {
  return {.granule = 4_KiB,
          .storages = {{.bytes = 40_KiB}, {.bytes = 40_KiB}},
          .ops = {{.name = "make", .births = {storage(0)}},
                  {.name = "other", .births = {storage(1)}, .deaths = {storage(1)}},
                  {.name = "use", .reads = {storage(0)}, .deaths = {storage(0)}}}};
}

Plan plan_by_hand() {
  return {.budget = 44_KiB,
          .ops = 3,
          .rows = {{.storage = storage(0), .bytes = 40_KiB, .begin = 0, .need = 0, .end = 1, .leave = Leave::kPageOut},
                   {.storage = storage(1), .bytes = 40_KiB, .begin = 1, .need = 1, .end = 2, .wait = 1},
                   {.storage = storage(0), .bytes = 40_KiB, .begin = 2, .need = 2, .end = 3, .fill = Fill::kPageIn}}};
}

// As above, and 2 comes in before op 1 over what 0 leaves at its range's end, waiting in its queue. 1 waits itself.
//
// offset    0          1       2
//  0        [0 born]   [1]     [0 page-in]
//  36 KiB              [2 page-in   ]
trace::Trace trace_with_queue() {
  trace::Trace trace = trace_by_hand();
  trace.storages[0].bytes = 72_KiB;
  trace.storages[1].bytes = 20_KiB;
  trace.storages.push_back({.bytes = 40_KiB, .entry = true});
  trace.ops[2].reads = {storage(0)};
  trace.ops[1].reads = {storage(2)};
  return trace;
}

Plan plan_with_queue() {
  return {.budget = 96_KiB,
          .ops = 3,
          .rows = {{.storage = storage(0), .bytes = 72_KiB, .begin = 0, .need = 0, .end = 1, .leave = Leave::kPageOut},
                   {.storage = storage(2),
                    .bytes = 40_KiB,
                    .offset = 36 << 10,
                    .begin = 1,
                    .need = 1,
                    .end = 2,
                    .wait = 1,
                    .fill = Fill::kPageIn,
                    .leave = Leave::kDrop},
                   {.storage = storage(1), .bytes = 20_KiB, .begin = 1, .need = 1, .end = 2, .wait = 1},
                   {.storage = storage(0), .bytes = 72_KiB, .begin = 2, .need = 2, .end = 3, .fill = Fill::kPageIn}}};
}

TEST(Validator, AsksForAWaitOfComputeWhereOnlyPageInsWait) {
  const trace::Trace trace = trace_with_queue();
  Plan plan = plan_with_queue();
  ASSERT_TRUE(validate(trace, plan).empty()) << validate(trace, plan).front();
  plan.rows[2].wait = 0;
  const auto violations = validate(trace, plan);
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(
      violations.front(),
      "op 1 (other): storage 1 takes bytes of storage 0 that are still paged out: page-ins waited for it, compute "
      "did not");
}

struct Break {
  const char* name;
  std::function<void(trace::Trace&, Plan&)> change;
  const char* says;
};

class ValidatorFinds : public testing::TestWithParam<Break> {};

TEST_P(ValidatorFinds, TheFirstThingThatIsWrong) {
  trace::Trace trace = trace_by_hand();
  Plan plan = plan_by_hand();
  ASSERT_TRUE(validate(trace, plan).empty()) << validate(trace, plan).front();
  GetParam().change(trace, plan);
  const auto violations = validate(trace, plan);
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations.front(), GetParam().says);
}

using T = trace::Trace;
INSTANTIATE_TEST_SUITE_P(
    Plans, ValidatorFinds,
    testing::Values(
        Break{"OtherTrace", [](T&, Plan& p) { p.ops = 4; }, "op 0 (make): the plan is for 4 ops and the trace has 3"},
        Break{"MissingRow", [](T&, Plan& p) { p.rows.pop_back(); },
              "op 2 (use): uses storage 0, which is not resident"},
        Break{"MissingBirth", [](T&, Plan& p) { p.rows.erase(p.rows.begin() + 1); },
              "op 1 (other): uses storage 1, which is not resident"},
        Break{"LateNeed", [](T&, Plan& p) { p.rows[2].need = 3; }, "op 2 (use): uses storage 0, which is not resident"},
        Break{"MissingWait", [](T&, Plan& p) { p.rows[1].wait = 0; },
              "op 1 (other): storage 1 takes the block of storage 0"},
        Break{"Overlap",
              [](T&, Plan& p) {
                p.budget = 88_KiB;
                p.rows[0].end = 2;
                p.rows[1].wait = 0;
                p.rows[1].offset = 4096;
              },
              "op 1 (other): storage 1 takes the block of storage 0"},
        Break{"DroppedWhileDirty",
              [](T&, Plan& p) {
                p.rows[0].leave = Leave::kDrop;
                p.rows[1].wait = 0;
              },
              "op 0 (make): storage 0 is dropped, and its bytes are nowhere else"},
        Break{"DeathThatIsNone",
              [](T&, Plan& p) {
                p.rows[0].leave = Leave::kDies;
                p.rows[1].wait = 0;
              },
              "op 0 (make): storage 0 does not die here"},
        Break{"SurvivesDeath", [](T&, Plan& p) { p.rows[2].leave = Leave::kPageOut; },
              "op 2 (use): storage 0 dies here, and the plan keeps it"},
        Break{"TooHigh", [](T&, Plan& p) { p.rows[2].offset = 8192; },
              "op 2 (use): storage 0 ends 4096 bytes above the space for planned blocks"},
        Break{"InTheReserve", [](T&, Plan& p) { p.reserve = 8_KiB; },
              "op 0 (make): storage 0 ends 4096 bytes above the space for planned blocks"},
        Break{"Unaligned", [](T&, Plan& p) { p.rows[2].offset = 512; },
              "op 2 (use): storage 0 is not aligned to the granule"},
        Break{"WrongSize", [](T&, Plan& p) { p.rows[1].bytes = 36_KiB; },
              "op 1 (other): storage 1 has 36864 bytes in the plan"},
        Break{"UnknownStorage", [](T&, Plan& p) { p.rows[1].storage = storage(9); },
              "op 1 (other): storage 9 is none of the trace"},
        Break{"BornTwice", [](T&, Plan& p) { p.rows[2].fill = Fill::kBorn; },
              "op 2 (use): storage 0 is born while it is alive"},
        Break{"PagedInWithoutACopy", [](T&, Plan& p) { p.rows[0].fill = Fill::kPageIn; },
              "op 0 (make): storage 0 is not below"},
        Break{"SmallStoragesAboveTheSlab", [](T& of, Plan&) { of.storages.push_back({.bytes = 8_KiB, .entry = true}); },
              "op 0 (make): small storages are more than the slab's 0 bytes"},
        Break{"NoTemporaryBlock", [](T& of, Plan&) { of.ops[1].temporary = 30_KiB; },
              "op 1 (other): has no block for its 32768 temporary bytes"},
        Break{"UnknownTicket", [](T&, Plan& p) { p.rows[1].wait = 2; },
              "op 1 (other): waits for ticket 2, which no page-out has"},
        Break{"BoundaryThatNothingCrosses", [](T&, Plan& p) { p.rows[0].fill = Fill::kBoundary; },
              "op 0 (make): storage 0 is not below"}),
    [](const auto& instance) { return instance.param.name; });

// One changed number in a plan of a planner is nearly always a violation; what is not found must be harmless, as a
// page-in that begins earlier in free space is.
TEST(Validator, FindsMostSingleChangesOfRandomPlans) {
  const Machine machine = named_machine("m40-12g");
  constexpr unsigned kSeeds = random_cases(400, 240);
  unsigned found = 0;
  unsigned tried = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const trace::Trace trace = random_trace(seed);
    const auto plan =
        make_planner("pages")->plan({.trace = trace, .machine = machine, .budget = Liveness(trace).floor()});
    ASSERT_TRUE(plan);
    if (plan->rows.size() < 8) continue;
    Plan changed = plan.value();
    std::mt19937 random(seed);
    const std::size_t number = random() % changed.rows.size();
    Row& row = changed.rows[number];
    const auto random_case = random() % 4;
    switch (random_case) {
      case 0:
        row.end = row.end == row.begin + 1 ? row.end + 1 : row.end - 1;
        break;
      case 1:
        row.storage = storage(random() % trace.storages.size());
        break;
      case 2:
        row.bytes += trace.granule;
        break;
      default:
        row.fill = row.fill == Fill::kBorn ? Fill::kPageIn : Fill::kBorn;
    }
    if (changed.rows[number].storage == plan->rows[number].storage && random_case == 1) continue;
    ++tried;
    found += validate(trace, changed).empty() ? 0 : 1;
  }
  EXPECT_GT(tried, kSeeds * 6 / 10);
  EXPECT_GT(found, tried * 17 / 20);
}

}  // namespace
}  // namespace tensorpager::plan
