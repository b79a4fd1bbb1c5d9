// Every technique of the pages planner has a switch. Whatever is off, the plan is right; with all on it is the
// quickest.
#include <gtest/gtest.h>

#include "synthetic_traces.h"
#include "tensorpager/plan/planner.h"
#include "tensorpager/plan/validator.h"

namespace tensorpager::plan {
namespace {

struct Switch {
  const char* name;
  unsigned percent;  // of need: where it should matter
  void (*turn_off)(Techniques&);
};

class TechniqueOff : public testing::TestWithParam<Switch> {
 protected:
  static Plan plan(const Techniques& techniques) {
    static const trace::Trace trace = layered_trace(600);
    static const Machine machine = named_machine("m40-12g");
    const base::Bytes budget(Liveness(trace).need().count() * GetParam().percent / 100);
    const auto result = make_pages_planner()->plan(
        {.trace = trace, .machine = machine, .budget = budget, .options = {.techniques = techniques}});
    const auto violations = validate(trace, result.value());
    EXPECT_TRUE(violations.empty()) << violations.front();
    return result.value();
  }
};

TEST_P(TechniqueOff, LeavesARightPlanThatIsNoQuicker) {
  Techniques techniques;
  GetParam().turn_off(techniques);
  EXPECT_GE(plan(techniques).predicted.step, plan({}).predicted.step);
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
  Machine machine = named_machine("m40-12g");
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

INSTANTIATE_TEST_SUITE_P(Switches, TechniqueOff,
                         testing::Values(Switch{"EarlyPageOuts", 30,
                                                [](Techniques& use) { use.early_page_outs = false; }},
                                         Switch{"Prefetch", 30, [](Techniques& use) { use.prefetch = false; }},
                                         Switch{"Tails", 30, [](Techniques& use) { use.tails = false; }},
                                         Switch{"Wrap", 90, [](Techniques& use) { use.wrap = false; }},
                                         Switch{"Feedback", 30, [](Techniques& use) { use.feedback = false; }}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::plan
