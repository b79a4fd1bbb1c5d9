// Plans that go on from elsewhere than from their op before: what is brought about, what is expected to be resident,
// and which windows count as followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using plan::Fill;
using plan::Leave;
using plan::StorageId;
using Kind = Action::Kind;

constexpr StorageId kHidden{2};
constexpr StorageId kRare{3};
constexpr Bytes kBiasSize{32 << 10};
constexpr Bytes kHiddenSize{20 << 10};
constexpr Bytes kRareSize{48 << 10};

//        offset    op 0   1      2
// weight      0   |==================|
// bias   64 KiB   |==================|
// hidden 96 KiB   |====|       |=====|   page-out after 0, which its page-in at 2 awaits
// rare  120 KiB          .     |=====|   below until 2
class PlanCursorState : public testing::Test {
 protected:
  static std::shared_ptr<const follow::Agenda> agenda() {
    const trace::Trace trace{.storages = {{.bytes = kWeightSize, .entry = true},
                                          {.bytes = kBiasSize, .entry = true},
                                          {.bytes = kHiddenSize},
                                          {.bytes = kRareSize, .entry = true}},
                             .ops = {{.name = "a", .reads = {kWeight}, .births = {kHidden}},
                                     {.name = "b", .reads = {kBias}},
                                     {.name = "c", .reads = {kHidden, kRare}, .deaths = {kHidden}}}};
    const Bytes stays = kWeightSize + kBiasSize;
    return std::make_shared<const follow::Agenda>(
        trace, plan::Plan{.budget = 1_MiB,
                          .ops = 3,
                          .rows = {row_of(kWeight, kWeightSize, 0, 0, 3, Fill::kBoundary, Leave::kBoundary),
                                   row_of(kBias, kBiasSize, 64 << 10, 0, 3, Fill::kBoundary, Leave::kBoundary),
                                   row_of(kHidden, kHiddenSize, 96 << 10, 0, 1, Fill::kBorn, Leave::kPageOut),
                                   row_of(kHidden, kHiddenSize, 96 << 10, 2, 3, Fill::kPageIn, Leave::kDies, 1),
                                   row_of(kRare, kRareSize, 120 << 10, 2, 3, Fill::kPageIn, Leave::kDrop)},
                          .predicted = {
                              .curve = {stays + kHiddenSize, stays + kHiddenSize, stays + kHiddenSize + kRareSize}}});
  }
  PlanCursorState() {
    rare_->number = 7;
    hidden_->number = 8;
    cursor_.bind(kWeight, *weight_);
    cursor_.bind(kBias, *bias_);
    cursor_.bind(kRare, *rare_);
    put_below(*rare_);
  }

  std::vector<Action> begin(std::uint32_t op, const std::vector<Block*>& touched = {}) {
    std::vector<Action> actions;
    EXPECT_TRUE(cursor_.begin_op(cursor_.agenda().signature(op), touched, actions));
    return actions;
  }
  void end() {
    std::vector<Action> actions;
    cursor_.end_op(actions);
  }
  void run(std::uint32_t op) {
    begin(op);
    if (op == 0) cursor_.created(*hidden_);
    end();
    if (op == 2) cursor_.died(*hidden_);
  }
  void run_window() {
    for (std::uint32_t op = 0; op < 3; ++op) run(op);
  }
  void run_another() {
    std::vector<Action> actions;
    base::OpSignature op{.name = base::name_hash("another")};
    op.add(kRareSize);
    EXPECT_FALSE(cursor_.begin_op(op, {}, actions));
  }

  std::unique_ptr<Block> weight_ = block_of(kWeightSize), bias_ = block_of(kBiasSize), hidden_ = block_of(kHiddenSize),
                         rare_ = block_of(kRareSize);
  PlanCursor cursor_{agenda()};
};

std::vector<Action> of_kind(const std::vector<Action>& actions, Kind kind) {
  std::vector<Action> those;
  std::ranges::copy_if(actions, std::back_inserter(those), [&](const Action& one) { return one.kind == kind; });
  return those;
}

TEST_F(PlanCursorState, BringsAboutWhatThePlanHasWhereItBegins) {
  run(0);
  cursor_.begin_here();
  put_below(*weight_);
  put_back(*rare_);
  const std::vector<Action> actions = begin(1);
  EXPECT_EQ(of_kind(actions, Kind::kPageOut),
            (std::vector<Action>{{Kind::kPageOut, hidden_.get()}, {Kind::kPageOut, rare_.get()}}));
  EXPECT_EQ(of_kind(actions, Kind::kAwaitQueued),
            (std::vector<Action>{{.kind = Kind::kAwaitQueued, .block = hidden_.get(), .number = 8},
                                 {.kind = Kind::kAwaitQueued, .block = rare_.get(), .number = 7}}));
  EXPECT_EQ(of_kind(actions, Kind::kPageIn),
            (std::vector<Action>{{Kind::kPageIn, bias_.get(), 64 << 10}, {Kind::kPageIn, weight_.get(), 0}}))
      << "first what is used first";
  for (const Kind kind : {Kind::kMove, Kind::kClearAndMove}) {
    const std::vector<Action> moves = of_kind(actions, kind);
    EXPECT_EQ(moves, (std::vector<Action>{{kind, bias_.get(), 64 << 10}, {kind, weight_.get(), 0}}));
  }
}

TEST_F(PlanCursorState, DoesNotExpectPageOutsThatWereNotSubmitted) {
  run(0);
  cursor_.begin_here();
  begin(1);
  const Bytes stays = kWeightSize + kBiasSize;
  EXPECT_EQ(cursor_.planned_at_begin(), stays) << "without what op 0 would have paged out";
  end();
  begin(2);
  EXPECT_EQ(cursor_.planned_at_begin(), stays + kHiddenSize + kRareSize) << "there it would be awaited";
  end();
  run(0);
  begin(1);
  EXPECT_EQ(cursor_.planned_at_begin(), stays + kHiddenSize);
}

TEST_F(PlanCursorState, BringsInAtAWindowsBeginWhatLeftAgainstThePlan) {
  run_window();
  put_below(*bias_);  // for an access outside ops
  EXPECT_EQ(begin(0), (std::vector<Action>{{Kind::kPageIn, bias_.get(), 64 << 10}}));
}

TEST_F(PlanCursorState, WhatIsLeavingComesBackOnceItHasLeft) {
  run_window();
  weight_->residence = pager::Residence::kLeaving;
  EXPECT_EQ(begin(0), (std::vector<Action>{{Kind::kPageIn, weight_.get(), 0}}));
}

TEST_F(PlanCursorState, AWindowIsFollowedWhereEachOpIsTheExpectedOne) {
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 3u);
  run(0);
  EXPECT_EQ(cursor_.followed_window(), 0u) << "it is not over";
  run_another();
  run(1);
  run(2);
  EXPECT_EQ(cursor_.followed_window(), 0u);
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 3u);
}

TEST_F(PlanCursorState, AWindowOfWhichOnlyTheLastPartIsFollowedIsNone) {
  run(0);
  cursor_.begin_here();
  run(1);
  run(2);
  EXPECT_EQ(cursor_.followed_window(), 0u);
}

TEST_F(PlanCursorState, AWindowThatMakesOtherBlocksIsNotFollowed) {
  begin(0);
  end();
  run(1);
  run(2);
  EXPECT_EQ(cursor_.followed_window(), 0u);
}

TEST_F(PlanCursorState, AWindowThatUsesABlockThatThePlanDidNotKnowIsNotFollowed) {
  const auto other = block_of(kBiasSize);
  run(0);
  begin(1, {other.get()});
  end();
  run(2);
  EXPECT_EQ(cursor_.block_of(kBias), other.get());
  EXPECT_EQ(cursor_.followed_window(), 0u);
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 3u);
}

TEST_F(PlanCursorState, AWindowIsNotFollowedWhereTheProgramHoldsWhatIsToLeave) {
  run_window();
  hidden_->word = kExport;
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 0u);
  hidden_->word = 0;
  rare_->word = kExport;
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 0u);
  put_below(*rare_);
  run_window();
  EXPECT_EQ(cursor_.followed_window(), 3u);
}

TEST_F(PlanCursorState, IsBroughtAboutAnewAfterAWindowThatWasNotFollowed) {
  run_window();
  run(0);
  run_another();
  EXPECT_EQ(of_kind(begin(1), Kind::kMove).size(), 0u) << "not amid the window";
  end();
  run(2);
  EXPECT_EQ(of_kind(begin(0), Kind::kMove).size(), 2u);
}

}  // namespace
}  // namespace tensorpager::follow
