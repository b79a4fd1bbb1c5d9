#include "tensorpager/plan/plan_io.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "synthetic_traces.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/planner.h"

namespace tensorpager::plan {

using namespace machine;
using namespace planning;
namespace {

using namespace base;

constexpr const char* kByHand = R"(tensorpager-plan 1
plan planner=hand machine=m budget=100000 slab=4096 reserve=0 ops=3
row 0 bytes=40960 offset=0 begin=0 need=0 end=1 fill=born leave=page_out
row temporary bytes=20480 offset=40960 begin=1 need=1 end=2 fill=born leave=dies
row 0 bytes=40960 offset=0 begin=2 need=2 end=3 wait=1 fill=page_in leave=dies
predicted step_ns=5 compute_ns=4 page_out=40960 page_in=40960 peak=65536
end
)";

Plan parse(const std::string& text) {
  std::istringstream in(text);
  return read_plan(in, "a.plan");
}

std::string error_of(const std::string& from, const std::string& to) {
  std::string text = kByHand;
  text.replace(text.find(from), from.size(), to);
  try {
    parse(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(PlanIo, WritesWhatItReads) {
  EXPECT_EQ(write_plan(parse(kByHand)), kByHand);
  const Plan plan = parse(kByHand);
  EXPECT_EQ(plan.space(), 95904_B);
  EXPECT_EQ(plan.top(), 61440_B);
  EXPECT_EQ(plan.rows[1].storage, kTemporary);
  EXPECT_EQ(plan.rows[2].wait, 1u);
}

TEST(PlanIo, KeepsTheTechniqueAndReadsFilesWithoutOne) {
  EXPECT_EQ(parse(kByHand).technique, Technique::kNone);
  std::string text = kByHand;
  text.insert(text.find(" machine=m"), " technique=over_transfers");
  EXPECT_EQ(parse(text).technique, Technique::kOverTransfers);
  EXPECT_EQ(write_plan(parse(text)), text);
  EXPECT_EQ(error_of("machine=m", "machine=m technique=magic"), "a.plan:2: technique: 'magic' is unknown");
}

TEST(PlanIo, ReadsReplaysBeforeTheRows) {
  const std::string replays = "replay op=0 before=2 keeps=3,4\nreplay op=1 before=2\n";
  std::string text = kByHand;
  text.insert(text.find("row 0"), replays);
  const Plan plan = parse(text);
  EXPECT_EQ(plan.replays, (std::vector<Replay>{{.op = 0, .before = 2, .keeps = {storage(3), storage(4)}},
                                               {.op = 1, .before = 2, .keeps = {}}}));
  EXPECT_EQ(write_plan(plan), text);
  EXPECT_EQ(error_of("row 0", "replay op=2 before=2\nrow 0"), "a.plan:3: before: is not after op 2");
  EXPECT_EQ(error_of("row 0", "replay op=0 before=2\nreplay op=0 before=1\nrow 0"),
            "a.plan:4: before: the replay is out of order");
  EXPECT_EQ(error_of("predicted", "replay op=0 before=2\npredicted"),
            "a.plan:6: record: 'replay' is none of row, predicted, end, or plan and replay at the beginning");
}

TEST(PlanIo, KeepsAllOfAPlanButTheCurve) {
  const trace::Trace trace = layered_trace(120);
  const Machine machine = named_machine("m40-12g");
  const Bytes budget(Liveness(trace).need().count() / 2);
  const auto plan = make_planner("pages")->plan({.trace = trace, .machine = machine, .budget = budget});
  ASSERT_TRUE(plan);
  const Plan back = parse(write_plan(plan.value()));
  EXPECT_EQ(write_plan(back), write_plan(plan.value()));
  EXPECT_EQ(back.predicted.step, plan->predicted.step);
  EXPECT_TRUE(validate(trace, back).empty());
}

TEST(PlanIo, NamesFileLineAndField) {
  EXPECT_EQ(error_of("need=0", "need=9"), "a.plan:3: need: '9' is not below 4");
  EXPECT_EQ(error_of("end=1 ", "end=0 "), "a.plan:3: end: 0 is below 1");
  EXPECT_EQ(error_of("wait=1", "wait=2"), "a.plan:7: wait: ticket 2 where there are 1 page-outs");
  EXPECT_EQ(error_of("leave=page_out", "leave=now"), "a.plan:3: leave: 'now' is unknown");
  EXPECT_EQ(error_of("slab=4096", "slab=200000"), "a.plan:2: budget: is below slab and reserve");
  EXPECT_EQ(
      error_of("begin=1 need=1 end=2", "begin=2 need=2 end=3"),
      "a.plan:5: begin: the row is out of order: rows are sorted by begin; boundary, page_in, born; need; storage");
  EXPECT_EQ(error_of("born leave=dies", "page_in leave=dies"), "a.plan:4: temporary: must have fill=born leave=dies");
  EXPECT_EQ(error_of("plan planner", "row planner"),
            "a.plan:2: record: 'row' is none of row, predicted, end, or plan and replay at the beginning");
  EXPECT_EQ(error_of("page_out\n", "boundary\n"), "a.plan:3: end: is not the number of ops, and leave=boundary");
  EXPECT_EQ(error_of("ops=3", "ops=4294967295"), "a.plan:2: ops: '4294967295' is not below 4294967295");
}

// Broken files give one line; what is read goes through the validator without harm.
TEST(PlanIo, AnswersBrokenFilesWithOneLine) {
  const trace::Trace trace = random_trace(7);
  int refused = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string text = kByHand;
    for (int change = 0; change < 2 && !text.empty(); ++change) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 20);
      else
        text[at] = random() % 2 == 0 ? static_cast<char>('0' + random() % 10) : static_cast<char>(random());
    }
    try {
      validate(trace, parse(text));
    } catch (const InvalidArgument& error) {
      ASSERT_TRUE(std::string(error.what()).starts_with("a.plan:")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace tensorpager::plan
