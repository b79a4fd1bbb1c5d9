#include "tensorpager/follow/plan_switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;

/// Classes of windows that begin alike and have nothing to page. Ops are letters.
std::shared_ptr<const follow::Agenda> class_of(const std::string& ops) {
  trace::Trace trace;
  for (const char op : ops) trace.ops.push_back({.name = std::string(1, op)});
  return std::make_shared<const follow::Agenda>(
      trace, plan::Plan{.budget = 1_MiB, .ops = static_cast<std::uint32_t>(ops.size())});
}

class PlanSwitchTest : public testing::Test {
 protected:
  /// Runs a window; the class that it was taken for at its first op.
  std::size_t run(std::size_t window) {
    std::size_t taken_for = 0;
    for (std::size_t i = 0; i < windows_[window].size(); ++i) {
      const base::OpSignature op{.name = base::name_hash(windows_[window].substr(i, 1))};
      std::vector<Action> actions;
      const bool is_expected = switch_.begin_op(op, {}, actions);
      EXPECT_TRUE(is_expected);
      if (i == 0) taken_for = switch_.active_class();
      if (is_expected) switch_.end_op(actions);
    }
    EXPECT_EQ(switch_.active_class(), window);
    return taken_for;
  }

  const std::vector<std::string> windows_ = {"abc", "abd", "abe"};
  PlanSwitch switch_{{class_of("abc"), class_of("abd"), class_of("abe")}};
};

TEST_F(PlanSwitchTest, TakesAWindowForWhatCameAfterWindowsLikeTheLast) {
  const std::vector<std::size_t> period = {0, 0, 0, 1,
                                           0, 0, 0, 2};  // micro-steps, updates, another kind each second time
  for (std::size_t i = 0; i < 2 * period.size(); ++i) run(period[i % period.size()]);
  for (std::size_t i = 0; i < 3 * period.size(); ++i)
    EXPECT_EQ(run(period[i % period.size()]), period[i % period.size()]) << i;
}

TEST_F(PlanSwitchTest, TurnsToAnotherClassWhereAWindowIsASurprise) {
  for (int i = 0; i < 6; ++i) run(0);
  EXPECT_EQ(run(1), 0u) << "it shows at its third op";
  EXPECT_EQ(run(0), 1u) << "nothing has come after it yet";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(0), 0u) << "as it was most often";
  EXPECT_EQ(switch_.misses(), 0u);
}

TEST_F(PlanSwitchTest, StartsAfterTheClassThatItIsTold) {
  switch_.start_after(2);
  EXPECT_EQ(run(2), 2u);
  EXPECT_EQ(run(2), 2u);
}

/// What is told when the window's first op begins.
std::vector<Action> begin_window(PlanSwitch& plans) {
  std::vector<Action> actions;
  const base::OpSignature op{.name = base::name_hash("a")};
  EXPECT_TRUE(plans.begin_op(op, {}, actions));
  std::vector<Action> at_end;
  plans.end_op(at_end);
  return actions;
}

/// The row of a storage that is always resident.
plan::Row stays() {
  return {.storage = plan::StorageId{0},
          .bytes = 64_KiB,
          .end = 1,
          .fill = plan::Fill::kBoundary,
          .leave = plan::Leave::kBoundary};
}

TEST(PlanSwitchUnplannedBlocks, LeaveOnceTheyWereNotUsedForAWindow) {
  PlanSwitch plans({class_of("a")});
  Block idle, used, dead;
  idle.number = 7;
  for (Block* block : {&idle, &used, &dead}) plans.created(*block);
  EXPECT_TRUE(begin_window(plans).empty()) << "they may be of the window to come";
  used.last_use = 2;
  plans.died(dead);
  EXPECT_EQ(begin_window(plans),
            (std::vector<Action>{{Action::Kind::kPageOut, &idle},
                                 {.kind = Action::Kind::kAwaitQueued, .block = &idle, .number = 7}}));
  put_below(idle);
  used.last_use = 3;
  EXPECT_TRUE(begin_window(plans).empty());
}

TEST(PlanSwitchUnplannedBlocks, AreNoneOnceAPlanKnowsThem) {
  const trace::Trace trace{.storages = {{.bytes = 64_KiB, .entry = true}}, .ops = {{.name = "a"}}};
  const plan::Plan plan{.budget = 1_MiB, .ops = 1, .rows = {stays()}};
  PlanSwitch plans({std::make_shared<const follow::Agenda>(trace, plan)});
  Block weight;
  plans.created(weight);
  plans.cursor(0).bind(plan::StorageId{0}, weight);
  begin_window(plans);
  for (int window = 0; window < 3; ++window) EXPECT_TRUE(begin_window(plans).empty());
}

// A model that was made anew; of the old one somebody holds a weight while it is to leave.
TEST(PlanSwitchUnplannedBlocks, AreBlocksInWhosePlaceOthersCame) {
  const trace::Trace trace{.storages = {{.bytes = 64_KiB, .entry = true}},
                           .ops = {{.name = "a", .reads = {plan::StorageId{0}}}}};
  const plan::Plan plan{.budget = 1_MiB, .ops = 1, .rows = {stays()}};
  PlanSwitch plans({std::make_shared<const follow::Agenda>(trace, plan)});
  const auto old = block_of(64_KiB), renewed = block_of(64_KiB);
  const auto leaves = [&](Block* used) {
    std::vector<Action> actions;
    EXPECT_TRUE(plans.begin_op(plans.cursor(0).agenda().signature(0), std::vector<Block*>{used}, actions));
    std::vector<Action> at_end;
    plans.end_op(at_end);
    return std::ranges::count(actions, Action{Action::Kind::kPageOut, old.get()});
  };
  plans.cursor(0).bind(plan::StorageId{0}, *old);
  EXPECT_EQ(leaves(old.get()), 0);
  EXPECT_EQ(leaves(renewed.get()), 1);
  EXPECT_EQ(leaves(renewed.get()), 1) << "it is there still";
  put_below(*old);
  EXPECT_EQ(leaves(renewed.get()), 0);
}

}  // namespace
}  // namespace tensorpager::follow
