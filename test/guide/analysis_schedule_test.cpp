#include "tensorpager/guide/analysis_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::guide {
namespace {

using Counts = std::vector<std::uint64_t>;

/// The steps, of the next `steps`, after which something is due.
Counts due_steps(AnalysisSchedule& schedule, std::uint64_t steps) {
  Counts due;
  for (std::uint64_t i = 0; i < steps; ++i)
    if (schedule.count_step()) due.push_back(schedule.steps());
  return due;
}

/// The ops, of those from `from` to `to`, at which something is due.
Counts due_ops(AnalysisSchedule& schedule, std::uint64_t from, std::uint64_t to) {
  Counts due;
  for (std::uint64_t ops = from; ops <= to; ++ops)
    if (schedule.count_ops(ops)) due.push_back(ops);
  return due;
}

TEST(AnalysisSchedule, IsDueAfterTheThirdStepAndThenAQuarterLater) {
  AnalysisSchedule schedule;
  EXPECT_EQ(due_steps(schedule, 20), (Counts{3, 4, 6, 8, 11, 14, 18}));
}

TEST(AnalysisSchedule, IsDueByOpsIfNothingMarksSteps) {
  AnalysisSchedule schedule;
  EXPECT_EQ(due_ops(schedule, 1, 2500), (Counts{1024, 1280, 1600, 2000, 2500}));
}

TEST(AnalysisSchedule, DoesNotGoByOpsOnceAStepIsMarked) {
  AnalysisSchedule schedule;
  schedule.count_step();
  EXPECT_EQ(due_ops(schedule, 1, 5000), Counts());
}

TEST(AnalysisSchedule, SaysWithoutTheLockWhetherAnythingMayBeDue) {
  AnalysisSchedule schedule;
  EXPECT_FALSE(schedule.may_be_due(1023));
  EXPECT_TRUE(schedule.may_be_due(1024));
  EXPECT_TRUE(schedule.may_be_due(1024)) << "a query changes nothing";
  EXPECT_TRUE(schedule.count_ops(1024));
  EXPECT_FALSE(schedule.may_be_due(1024));
}

TEST(AnalysisSchedule, IsDueEveryFourthWindowOfAnActivePlanWhateverStepsThereAre) {
  AnalysisSchedule schedule;
  due_steps(schedule, 3);
  schedule.plan_activated(100, 10);
  EXPECT_EQ(due_steps(schedule, 20), Counts());
  EXPECT_EQ(due_ops(schedule, 101, 139), Counts());
  EXPECT_TRUE(schedule.count_ops(140));
  schedule.plan_checked(142);
  EXPECT_EQ(due_ops(schedule, 143, 182), Counts{182});
}

TEST(AnalysisSchedule, IsDueAQuarterLaterIfACheckIsMissed) {
  AnalysisSchedule schedule;
  schedule.plan_activated(100, 25);
  EXPECT_EQ(due_ops(schedule, 101, 250), (Counts{200, 250}));
}

TEST(AnalysisSchedule, WaitsTwiceAsLongAfterEachDropInARow) {
  for (const auto& [drops, steps] : {std::pair{1, 3}, {2, 6}, {3, 12}}) {
    AnalysisSchedule schedule;
    due_steps(schedule, 3);
    schedule.plan_activated(100, 10);
    schedule.plan_dropped(200, static_cast<std::uint64_t>(drops));
    EXPECT_EQ(due_steps(schedule, static_cast<std::uint64_t>(steps)).front(), 3 + steps);
    AnalysisSchedule unmarked;
    unmarked.plan_activated(100, 10);
    unmarked.plan_dropped(200, static_cast<std::uint64_t>(drops));
    const std::uint64_t due = 200 + (50U << drops);
    EXPECT_EQ(due_ops(unmarked, 201, due), Counts{due});
  }
}

TEST(AnalysisSchedule, StopsDoublingAfterSixteenDrops) {
  AnalysisSchedule schedule;
  schedule.plan_dropped(4, 60);
  EXPECT_FALSE(schedule.may_be_due(4 + (1U << 16) - 1));
  EXPECT_TRUE(schedule.may_be_due(4 + (1U << 16)));
  EXPECT_EQ(due_steps(schedule, 3U << 16).front(), 3U << 15);
}

TEST(AnalysisSchedule, BeginsAgainWhenRecordingResumes) {
  AnalysisSchedule schedule;
  due_steps(schedule, 19);
  schedule.recording_resumed(5000);
  EXPECT_EQ(due_steps(schedule, 3), Counts{22});
  AnalysisSchedule unmarked;
  unmarked.recording_resumed(5000);
  EXPECT_EQ(due_ops(unmarked, 5001, 6024), Counts{6024});
}

TEST(AnalysisSchedule, IsDueFourWindowsAfterRecordingResumesUnderAPlan) {
  AnalysisSchedule schedule;
  schedule.plan_activated(100, 10);
  schedule.recording_resumed(5000);
  EXPECT_EQ(due_steps(schedule, 10), Counts());
  EXPECT_EQ(due_ops(schedule, 5001, 5040), Counts{5040});
}

TEST(AnalysisSchedule, IsNeverDueOnceItIsStopped) {
  AnalysisSchedule schedule;
  schedule.stop();
  EXPECT_EQ(due_ops(schedule, 1, 5000), Counts());
  schedule.recording_resumed(10);
  EXPECT_EQ(due_ops(schedule, 1, 5000), Counts());
  EXPECT_EQ(due_steps(schedule, 10), Counts());
  schedule.plan_activated(5000, 10);
  EXPECT_EQ(due_ops(schedule, 5001, 5040), Counts{5040}) << "a user-supplied plan is checked";
}

TEST(AnalysisSchedule, LetsRecordingPauseIfAllFittedTwiceInARow) {
  AnalysisSchedule schedule;
  schedule.all_fitted();
  EXPECT_FALSE(schedule.fits_for_long());
  schedule.not_all_fitted();
  schedule.all_fitted();
  EXPECT_FALSE(schedule.fits_for_long());
  schedule.all_fitted();
  EXPECT_TRUE(schedule.fits_for_long());
  schedule.recording_resumed(1);
  EXPECT_FALSE(schedule.fits_for_long()) << "it no longer did";
}

TEST(AnalysisSchedule, TakesAThreadForEndedAfterAThousandBoundariesInARowWithoutIt) {
  AnalysisSchedule schedule;
  const auto misses = [&](int count) {
    for (int i = 0; i < count; ++i)
      if (schedule.miss_boundary()) return true;
    return false;
  };
  EXPECT_FALSE(misses(1000));
  schedule.meet_boundary();
  EXPECT_FALSE(misses(1000));
  schedule.plan_activated(1, 1);
  EXPECT_FALSE(misses(1000));
  EXPECT_TRUE(misses(1));
}

}  // namespace
}  // namespace tensorpager::guide
