// Programs that repeat themselves, over the real pager: what is found of them is followed, and their bytes stay
// right.
#include "tensorpager/guide/guide.h"

#include <filesystem>
#include <string>
#include <vector>

#include "../random_cases.h"
#include "guide_fixture.h"
#include "tensorpager/base/records.h"
#include "tensorpager/guide/analysis.h"

namespace tensorpager::guide {
namespace {

TEST_F(GuideTest, FollowsFromTheFourthStepOnWhatRepeats) {
  start_guided(room_for(9));
  for (int step = 0; step < 12; ++step) train();
  const pager::Statistics after = counts();
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_EQ(guide_->progress().window_ops, 2 * kLayers);
  EXPECT_EQ(after.followed_ops, 9 * 2 * kLayers);
  EXPECT_EQ(after.plan_misses, 0u);
  EXPECT_GT(after.page_ins, 0u);
  EXPECT_EQ(guide_->progress().followed_share, 1.0);
  EXPECT_GT(guide_->progress().measured_overhead, 0.0);
  EXPECT_GE(guide_->progress().placement_waste, 0.0);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_.front().find("step of 16 ops"), std::string::npos) << said_.front();
}

TEST_F(GuideTest, PlansBesideTheProgram) {
  start_guided(room_for(9), {.refines = false});
  for (int step = 0; step < 10'000 && guide_->progress().plans == 0; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  const std::uint64_t before = counts().followed_ops;
  for (int step = 0; step < 5; ++step) train();
  EXPECT_EQ(counts().followed_ops - before, 5 * 2 * kLayers);
  EXPECT_EQ(counts().plan_misses, 0u);
}

TEST_F(GuideTest, FollowsWindowsOfWhichNoTwoAreEqual) {
  start_guided(room_for(9));
  std::uint64_t notes = 0;
  const auto train_with_notes = [&](int step) {
    // Of another layer and another number in each step.
    for (int i = 0; i < step % 7; ++i, ++notes) run_op("note", {{weights_[step % kLayers], seeds_[step % kLayers]}});
    train();
  };
  for (int step = 0; step < 20; ++step) train_with_notes(step);
  ASSERT_GE(guide_->progress().plans, 1u);
  EXPECT_NE(said_.front().find("variable-shape step of about"), std::string::npos) << said_.front();
  const std::uint64_t followed = counts().followed_ops;
  const std::uint64_t notes_before = notes;
  for (int step = 20; step < 60; ++step) train_with_notes(step);
  EXPECT_FALSE(guide_->is_recording_paused()) << "the next window may be another";
  EXPECT_GE(counts().followed_ops - followed, 40 * 2 * kLayers * 9 / 10);
  EXPECT_LE(counts().followed_ops - followed, 40 * 2 * kLayers + notes - notes_before);
}

TEST_F(GuideTest, PlansNothingWhereAllFits) {
  start_guided(room_for(40));
  for (int step = 0; step < 12; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 0u);
  EXPECT_EQ(counts().page_outs, 0u);
}

TEST_F(GuideTest, FollowsWindowsOfTwoClasses) {
  start_guided(room_for(9));
  for (int step = 0; step < 30; ++step) {
    train();
    if (step % 3 == 2) evaluate();
  }
  const std::uint64_t followed = counts().followed_ops, missed = counts().plan_misses;
  for (int step = 0; step < 9; ++step) {
    train();
    if (step % 3 == 2) evaluate();
  }
  // The evaluation begins as training does; that it is none shows with its last op.
  EXPECT_EQ(counts().followed_ops - followed, 9 * 2 * kLayers + 3 * (kLayers + 1));
  EXPECT_EQ(counts().plan_misses, missed);
}

// The last micro-step goes on with the optimizer.
TEST_F(GuideTest, FollowsWindowsOfWhichOneIsTheBeginningOfAnother) {
  start_guided(room_for(9));
  for (int step = 0; step < 20; ++step) train_by_micro_steps();
  const std::uint64_t followed = counts().followed_ops, missed = counts().plan_misses;
  for (int step = 0; step < 10; ++step) train_by_micro_steps();
  EXPECT_EQ(counts().followed_ops - followed, 10 * (3 * 2 * kLayers + kLayers));
  EXPECT_EQ(counts().plan_misses, missed);
}

TEST_F(GuideTest, AnalysesAgainWhereTheProgramGoesOnToSomethingElse) {
  start_guided(room_for(9));
  for (int step = 0; step < 8; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  for (int step = 0; step < 60; ++step) evaluate();
  EXPECT_GE(guide_->progress().plans, 2u);
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 5; ++step) evaluate();
  EXPECT_EQ(counts().followed_ops - followed, 5 * (kLayers + 1));
}

TEST_F(GuideTest, PausesRecordingWhileThePlanHolds) {
  start_guided(room_for(9));
  for (int step = 0; step < 20; ++step) train();
  ASSERT_TRUE(guide_->is_recording_paused());
  EXPECT_EQ(pager_.sink(), nullptr);
  const std::uint64_t recorded = guide_->stream().ops.size();
  for (unsigned step = 0; step < random_cases(2000, 300); ++step) train();
  EXPECT_TRUE(guide_->is_recording_paused());
  EXPECT_EQ(guide_->stream().ops.size(), recorded);
  EXPECT_EQ(counts().plan_misses, 0u);
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_EQ(guide_->progress().followed_share, 1.0);
}

TEST_F(GuideTest, ResumesRecordingWhereTheProgramGoesOnToSomethingElse) {
  start_guided(room_for(9));
  for (int step = 0; step < 20; ++step) train();
  ASSERT_TRUE(guide_->is_recording_paused());
  int steps = 0;
  for (; steps < 2000 && guide_->progress().plans < 2; ++steps) evaluate();
  EXPECT_GE(guide_->progress().plans, 2u);
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 5; ++step) evaluate();
  EXPECT_EQ(counts().followed_ops - followed, 5 * (kLayers + 1));
  for (int step = 0; step < 100; ++step) evaluate();
  EXPECT_TRUE(guide_->is_recording_paused());
}

TEST_F(GuideTest, PausesRecordingWhereAllFitsAndPlansWhenItNoLongerDoes) {
  start_guided(room_for(20));
  for (int step = 0; step < 20; ++step) train();
  EXPECT_TRUE(guide_->is_recording_paused());
  Block* more[6];
  for (Block*& block : more) block = &make(kBlock, 7);
  for (int step = 0; step < 2000 && guide_->progress().plans == 0; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  // The need is that of the weights, the outputs and these: what was alive before the pause is not counted twice.
  static_assert(kLayers == 8 && room_for(22).count() == 11 * (std::uint64_t{1} << 17));
  EXPECT_NE(said_.back().find("(need 1.38 MiB"), std::string::npos) << said_.back();
  for (Block* block : more) destroy(*block);
}

TEST_F(GuideTest, NeverPausesRecordingWhereItIsToRecordAll) {
  start_guided(room_for(9), {.waits = true, .pauses = false, .refines = false});
  for (int step = 0; step < 50; ++step) train();
  EXPECT_FALSE(guide_->is_recording_paused());
  EXPECT_NE(pager_.sink(), nullptr);
}

TEST_F(GuideTest, PlansAgainFromTheTimesSeenUntilNothingIsGained) {
  start_guided(room_for(9), {.waits = true});
  for (int step = 0; step < 4; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  const double predicted = guide_->progress().predicted_window_seconds;
  for (int step = 4; step < 100; ++step) train();
  EXPECT_TRUE(guide_->is_recording_paused());
  EXPECT_NE(guide_->progress().predicted_window_seconds, predicted);
  constexpr std::uint64_t kMostRefined = 3;
  EXPECT_GE(guide_->progress().plans, 1u);
  EXPECT_LE(guide_->progress().plans, 1 + kMostRefined);
  EXPECT_EQ(counts().followed_ops, 97 * 2 * kLayers);
  EXPECT_EQ(counts().plan_misses, 0u);
  EXPECT_EQ(said_.size(), guide_->progress().plans);
}

TEST_F(GuideTest, PlansAgainAlsoWhereTheFirstAnalysisFoundNothing) {
  start_guided(room_for(9), {.waits = true});
  for (const char* kind : {"one", "two", "three"}) evaluate(kind);  // no two windows alike
  ASSERT_EQ(guide_->progress().plans, 0u);
  for (int step = 0; step < 100 && guide_->progress().plans == 0; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  const double predicted = guide_->progress().predicted_window_seconds;
  for (int step = 0; step < 200; ++step) train();
  EXPECT_NE(guide_->progress().predicted_window_seconds, predicted);
}

/// A plan for what was recorded so far, as from files.
std::vector<plan::GivenPlan> user_supplied_from(const trace::Stream& stream, Bytes budget) {
  const auto profile = analyse(stream, budget, machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}}));
  const ClassProfile& one = profile.value().classes.front();
  return {{.trace = *one.trace, .plan = one.agenda->plan()}};
}

TEST_F(GuideTest, FollowsAUserSuppliedPlanFromTheFirstWindowOn) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const std::vector<plan::GivenPlan> given = user_supplied_from(guide_->stream(), room_for(9));
  restart_guide({.waits = true});
  guide_->activate_user_supplied(profile_of(given));
  const std::uint64_t followed = counts().followed_ops, missed = counts().plan_misses;
  for (int step = 0; step < 30; ++step) train();
  EXPECT_GE(counts().followed_ops - followed, 29 * 2 * kLayers);
  EXPECT_LE(counts().plan_misses - missed, 4u);
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_TRUE(said_.back().starts_with("user-supplied plan: ")) << said_.back();
  EXPECT_TRUE(guide_->is_recording_paused());
}

TEST_F(GuideTest, FollowsWhatAnEarlierSessionPlanned) {
  const plan::PlanCache cache(testing::TempDir() + "/guide_plan_cache");
  std::filesystem::remove_all(testing::TempDir() + "/guide_plan_cache");
  start_guided(room_for(9), {.waits = true, .refines = false, .cache = cache});
  for (int step = 0; step < 6; ++step) train();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_TRUE(said_.back().starts_with("plan active: ")) << said_.back();
  restart_guide({.waits = true, .refines = false, .cache = cache});
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 6; ++step) train();
  EXPECT_TRUE(said_.back().starts_with("plan from the cache: ")) << said_.back();
  EXPECT_GE(counts().followed_ops - followed, 2 * 2 * kLayers);
  restart_guide({.waits = true, .refines = false});
  for (int step = 0; step < 6; ++step) train();
  EXPECT_TRUE(said_.back().starts_with("plan active: ")) << said_.back();
}

TEST_F(GuideTest, SaysThatPlansCannotBeKept) {
  write_whole_file(testing::TempDir() + "/no_directory", "a file");
  start_guided(room_for(9),
               {.waits = true, .refines = false, .cache = plan::PlanCache(testing::TempDir() + "/no_directory/plans")});
  for (int step = 0; step < 6; ++step) train();
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[0].substr(0, 20), "plans are not kept: ") << said_[0];
  EXPECT_TRUE(said_[1].starts_with("plan active: ")) << said_[1];
}

class DroppedPlanTest : public GuideTest {
 protected:
  /// The plan is for another program than the one that runs, until that has a plan of its own.
  void do_other_than_user_supplied() {
    start_guided(room_for(9), {.plans = false});
    for (int step = 0; step < 6; ++step) train();
    const std::vector<plan::GivenPlan> given = user_supplied_from(guide_->stream(), room_for(9));
    restart_guide({.waits = true, .refines = false});
    guide_->activate_user_supplied(profile_of(given));
    for (int step = 0; step < 200 && guide_->progress().plans < 2; ++step) evaluate("other");
  }
};

TEST_F(DroppedPlanTest, GivesWayToAPlanOfTheProgram) {
  do_other_than_user_supplied();
  EXPECT_EQ(guide_->progress().plans, 2u);
  EXPECT_TRUE(said_.back().starts_with("plan active: ")) << said_.back();
}

TEST_F(DroppedPlanTest, IsNotPlannedAgain) {
  do_other_than_user_supplied();
  EXPECT_NE(said_.back().find("step of 9 ops"), std::string::npos) << said_.back();
  EXPECT_EQ(said_.back().find("step of 16 ops"), std::string::npos) << said_.back();
}

TEST_F(GuideTest, DeactivatesThePlanWhereItIsStopped) {
  start_guided(room_for(9));
  for (int step = 0; step < 6; ++step) train();
  guide_->stop();
  const std::uint64_t followed = counts().followed_ops;
  EXPECT_GT(followed, 0u);
  for (int step = 0; step < 6; ++step) train();
  EXPECT_EQ(counts().followed_ops, followed);
  EXPECT_EQ(guide_->progress().plans, 1u);
}

}  // namespace
}  // namespace tensorpager::guide
