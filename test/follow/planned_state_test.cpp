#include "tensorpager/follow/planned_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;
using Kind = Action::Kind;

constexpr StorageId kLate{0}, kSoon{1}, kAway{2};

//         offset    op 0   1      2
// late    64 KiB   |==================|   used at 2
// soon         0   |==================|   used at 1
// away   128 KiB                |=====|   paged in at 2, used at 2
Agenda agenda_of_three() {
  return Agenda(
      {.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize, .entry = true}, {.bytes = kSize, .entry = true}},
       .ops = {{.name = "a"}, {.name = "b", .reads = {kSoon}}, {.name = "c", .reads = {kLate, kAway}}}},
      Plan{.budget = 1_MiB,
           .ops = 3,
           .rows = {row_of(kLate, kSize, 64 << 10, 0, 3, Fill::kBoundary, Leave::kBoundary),
                    row_of(kSoon, kSize, 0, 0, 3, Fill::kBoundary, Leave::kBoundary),
                    row_of(kAway, kSize, 128 << 10, 2, 3, Fill::kPageIn, Leave::kPageOut)}});
}

class PlannedState : public testing::Test {
 protected:
  PlannedState() {
    storages_.bind(kLate, late_);
    storages_.bind(kSoon, soon_);
    storages_.bind(kAway, away_);
    put_below(away_);
  }
  std::vector<Action> reach(std::uint32_t op, Places places) {
    std::vector<Action> actions;
    all_leave_ = reach_planned_state(agenda_, storages_, op, places, actions);
    return actions;
  }

  const Agenda agenda_ = agenda_of_three();
  StorageMap storages_{agenda_};
  SizedBlock late_{kSize}, soon_{kSize}, away_{kSize};
  bool all_leave_ = false;
};

TEST_F(PlannedState, NeedsNothingWhereAllIsAsPlanned) {
  EXPECT_TRUE(reach(0, Places::kPlanned).empty());
  EXPECT_TRUE(all_leave_);
}

TEST_F(PlannedState, BringsWhatIsAwayInTheOrderOfTheNextUses) {
  put_below(late_);
  soon_.residence = pager::Residence::kLeaving;
  EXPECT_EQ(reach(0, Places::kPlanned),
            (std::vector<Action>{{Kind::kPageIn, &soon_, 0}, {Kind::kPageIn, &late_, 64 << 10}}));
}

TEST_F(PlannedState, PagesOutWhatThePlanHasNowhereYet) {
  put_back(away_);
  std::vector<Action> leaves;
  page_out_for_good(away_, leaves);
  EXPECT_EQ(reach(0, Places::kPlanned), leaves);
  EXPECT_TRUE(all_leave_);
  away_.word = pager::kExport;
  EXPECT_EQ(reach(0, Places::kPlanned), leaves);
  EXPECT_FALSE(all_leave_) << "somebody holds its address";
}

TEST_F(PlannedState, MovesFirstWithoutAndThenWithEvictionWhereBlocksMayBeAnywhere) {
  std::vector<Action> expected;
  page_out_for_good(away_, expected);
  for (const Kind kind : {Kind::kMove, Kind::kClearAndMove, Kind::kPageIn})
    expected.insert(expected.end(), {{kind, &soon_, 0}, {kind, &late_, 64 << 10}});
  EXPECT_EQ(reach(1, Places::kAny), expected);
}

TEST_F(PlannedState, LeavesPageInsThatBeginHereToTheirRows) {
  for (const Action& action : reach(2, Places::kAny)) EXPECT_NE(action.block, &away_);
}

TEST_F(PlannedState, APageInMayBeDirtyWhereTheBlockIsNotDroppedLater) {
  EXPECT_TRUE(page_in_of(away_, agenda_.row(2)).may_be_dirty);
  EXPECT_FALSE(page_in_of(late_, agenda_.row(0)).may_be_dirty);
}

}  // namespace
}  // namespace tensorpager::follow
