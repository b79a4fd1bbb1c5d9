#include "tensorpager/guide/progress_meter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tensorpager::guide {
namespace {

using std::chrono::milliseconds;

/// Of 4 ops, 10 MB at most.
plan::Plan some_plan() {
  plan::Plan plan;
  plan.ops = 4;
  plan.predicted.peak = base::Bytes(10'000'000);
  return plan;
}

TEST(ProgressMeter, HasNoFiguresBeforeAPlanIsActive) {
  const ProgressMeter meter;
  const Progress progress = meter.progress({.ops = 10, .followed = 5, .paged = 1, .computed = 2});
  EXPECT_EQ(progress.plans, 0u);
  EXPECT_EQ(progress.followed_share, 0);
  EXPECT_EQ(progress.measured_overhead, 0);
}

TEST(ProgressMeter, CountsFromWhenTheNewestPlanBecameActive) {
  ProgressMeter meter;
  meter.plan_activated({}, some_plan());
  meter.plan_activated({.ops = 100, .followed = 10, .missed = 10, .paged = 5, .computed = 5}, some_plan());
  const Progress progress = meter.progress({.ops = 200, .followed = 90, .missed = 30, .paged = 6, .computed = 9});
  EXPECT_EQ(progress.plans, 2u);
  EXPECT_EQ(progress.window_ops, 4u);
  EXPECT_EQ(progress.followed_share, 0.8);
  EXPECT_EQ(progress.measured_overhead, 0.25);
}

// Allocations outside ops are followed, and are no ops.
TEST(ProgressMeter, SharesOfFollowedOpsAreOneAtMost) {
  ProgressMeter meter;
  meter.plan_activated({}, some_plan());
  EXPECT_EQ(meter.progress({.ops = 10, .followed = 12, .missed = 4}).followed_share, 0.75);
}

TEST(ProgressMeter, CountsDuringAPauseWhatThePlanKnowsAndAllTimeThatIsNotPaging) {
  ProgressMeter meter;
  meter.plan_activated({}, some_plan());
  meter.recording_paused({.ops = 100, .followed = 100, .paged = 1, .computed = 10, .at = 50});
  const ProgressMeter::Reading later = {
      .ops = 100, .followed = 180, .missed = 20, .paged = 2, .computed = 10, .at = 61};
  EXPECT_EQ(meter.progress(later).followed_share, 0.9);
  EXPECT_EQ(meter.progress(later).measured_overhead, 0.1) << "2 s of paging, and 10 + 10 s of other time";
}

TEST(ProgressMeter, RemembersPausesThatAreOver) {
  ProgressMeter meter;
  meter.plan_activated({}, some_plan());
  ProgressMeter::Reading now = {};
  for (int i = 0; i < 2; ++i) {
    meter.recording_paused(now);
    now.followed += 90, now.missed += 10, now.paged += 1, now.at += 11;
    meter.recording_resumed(now);
    now.ops += 100, now.followed += 100, now.computed += 10, now.at += 10;
  }
  EXPECT_EQ(meter.progress(now).followed_share, 0.95);
  EXPECT_EQ(meter.progress(now).measured_overhead, 0.05);
}

TEST(ProgressMeter, CountsFromWithinTheRecordAlsoIfAPlanBecomesActiveAfterAPause) {
  ProgressMeter meter;
  meter.recording_paused({});
  meter.recording_resumed({.missed = 100, .paged = 1, .at = 11});
  meter.plan_activated({.ops = 10, .missed = 100, .paged = 1, .computed = 1}, some_plan());
  const Progress progress = meter.progress({.ops = 20, .followed = 10, .missed = 100, .paged = 2, .computed = 5});
  EXPECT_EQ(progress.followed_share, 1);
  EXPECT_EQ(progress.measured_overhead, 0.25);
}

TEST(ProgressMeter, SaysWhatHappenedSinceThePause) {
  ProgressMeter meter;
  meter.recording_paused({.followed = 5, .missed = 6, .page_outs = 7});
  const ProgressMeter::Reading since = meter.since_pause({.followed = 10, .missed = 20, .page_outs = 30});
  EXPECT_EQ(since.followed, 5u);
  EXPECT_EQ(since.missed, 14u);
  EXPECT_EQ(since.page_outs, 23u);
}

TEST(ProgressMeter, ShowsTheNewestPrediction) {
  ProgressMeter meter;
  meter.plan_activated({}, some_plan());
  meter.predict({.step = milliseconds(1)}, 0.5);
  meter.predict({.step = milliseconds(30), .compute = milliseconds(20), .peak = base::Bytes(7)}, std::nullopt);
  const Progress progress = meter.progress({});
  EXPECT_EQ(progress.predicted_window_seconds, 0.03);
  EXPECT_EQ(progress.predicted_overhead, 0.5);
  EXPECT_EQ(progress.predicted_peak_bytes, 7u);
  EXPECT_EQ(progress.lower_bound_overhead, 0);
}

}  // namespace
}  // namespace tensorpager::guide
