#include "tensorpager/guide/adherence.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::guide {
namespace {

using enum Adherence::Verdict;
using Verdicts = std::vector<Adherence::Verdict>;
using Windows = Adherence::Windows;

/// A plan that is checked every 100 ops.
class AdherenceTest : public testing::Test {
 protected:
  /// By checks between which this many of the 100 ops were followed.
  Verdicts check(const std::vector<std::uint64_t>& followed, Windows windows = Windows::kEqual) {
    Verdicts verdicts;
    for (const std::uint64_t ops : followed) {
      now_ = {.ops = now_.ops + 100, .followed = now_.followed + ops};
      verdicts.push_back(adherence_.check(now_, windows));
    }
    return verdicts;
  }

  Adherence adherence_{Adherence::kMostReplacements};
  Adherence::Counts now_{.ops = 1000, .followed = 500};
};

TEST_F(AdherenceTest, AnalysesAsLongAsPlanningAgainMayGainThenPauses) {
  adherence_.activated(now_);
  EXPECT_EQ(check({100, 95, 100}), (Verdicts{kAnalyse, kAnalyse, kAnalyse}));
  adherence_.converge();
  EXPECT_EQ(check({100}), Verdicts{kPause});
}

TEST_F(AdherenceTest, PausesAtTheSecondCheckInARowAtWhichThePlanHolds) {
  adherence_.activated(now_);
  adherence_.converge();
  EXPECT_EQ(check({100, 94, 100, 100}), (Verdicts{kKeep, kAnalyse, kKeep, kPause}));
}

TEST_F(AdherenceTest, PlansAgainInNoCaseIfThatIsOff) {
  Adherence off(0);
  off.activated(now_);
  EXPECT_EQ(off.check({.ops = 1100, .followed = 600}, Windows::kEqual), kKeep);
  EXPECT_EQ(off.check({.ops = 1200, .followed = 700}, Windows::kEqual), kPause);
  EXPECT_FALSE(off.is_worthwhile(0.5));
}

TEST_F(AdherenceTest, ReplacesAPlanForATwoPercentGainAtLeast) {
  EXPECT_FALSE(adherence_.is_worthwhile(0.019));
  EXPECT_TRUE(adherence_.is_worthwhile(0.02));
}

TEST_F(AdherenceTest, ReplacesAPlanThreeTimesAtMost) {
  adherence_.activated(now_);
  for (int i = 0; i < 2; ++i) adherence_.replaced(now_);
  EXPECT_EQ(check({100}), Verdicts{kAnalyse});
  adherence_.replaced(now_);
  EXPECT_EQ(check({100, 100}), (Verdicts{kKeep, kPause}));
}

TEST_F(AdherenceTest, ForgetsOfOtherPlansWhatPlanningAgainGained) {
  adherence_.converge();  // an analysis before there was a plan
  adherence_.activated(now_);
  EXPECT_EQ(check({100}), Verdicts{kAnalyse});
  for (int i = 0; i < 2; ++i) adherence_.replaced(now_);
  EXPECT_EQ(check({0}), Verdicts{kDrop});
  adherence_.activated(now_);
  adherence_.replaced(now_);
  EXPECT_EQ(check({100}), Verdicts{kAnalyse}) << "one replacement, and not three";
}

TEST_F(AdherenceTest, AnalysesEverMoreRarelyWhileSomeOpsAreOther) {
  adherence_.activated(now_);
  EXPECT_EQ(check({94, 60, 30, 94, 94, 94, 94, 94}),
            (Verdicts{kAnalyse, kAnalyse, kKeep, kAnalyse, kKeep, kKeep, kKeep, kAnalyse}));
}

TEST_F(AdherenceTest, AnalysesEverMoreRarelyAndNeverPausesForSimilarWindows) {
  adherence_.activated(now_);
  adherence_.converge();
  EXPECT_EQ(check({100, 100, 100, 100, 100}, Windows::kSimilar),
            (Verdicts{kAnalyse, kAnalyse, kKeep, kAnalyse, kKeep}));
}

TEST_F(AdherenceTest, DropsAPlanThatIsHardlyFollowed) {
  adherence_.activated(now_);
  EXPECT_EQ(check({30, 29}), (Verdicts{kAnalyse, kDrop}));
}

TEST_F(AdherenceTest, CountsDropsUntilAPlanHolds) {
  for (std::uint64_t drops = 1; drops <= 3; ++drops) {
    adherence_.activated(now_);
    EXPECT_EQ(check({50, 0}).back(), kDrop);
    EXPECT_EQ(adherence_.drops(), drops) << "a plan that is half followed does not hold";
  }
  adherence_.activated(now_);
  check({95});
  EXPECT_EQ(adherence_.drops(), 0u);
}

TEST_F(AdherenceTest, KeepsAUserSuppliedPlanUntilItIsDropped) {
  adherence_.activated_user_supplied(now_);
  EXPECT_EQ(check({100, 60, 60, 100, 100}), (Verdicts{kKeep, kKeep, kKeep, kKeep, kPause}));
  adherence_.resumed(now_);
  EXPECT_EQ(check({100, 29}), (Verdicts{kKeep, kDrop}));
  adherence_.activated(now_);
  EXPECT_EQ(check({100}), Verdicts{kAnalyse});
  adherence_.activated_user_supplied(now_);
  adherence_.replaced(now_);
  EXPECT_EQ(check({60}), Verdicts{kAnalyse}) << "which another has replaced";
}

TEST_F(AdherenceTest, BeginsAgainAfterAPause) {
  adherence_.activated(now_);
  adherence_.converge();
  check({100, 100});
  now_ = {.ops = now_.ops + 10, .followed = now_.followed + 10'000};  // unrecorded ops are followed, too
  adherence_.resumed(now_);
  EXPECT_EQ(check({100}), Verdicts{kAnalyse});
  adherence_.converge();
  adherence_.resumed(now_);
  adherence_.converge();
  EXPECT_EQ(check({100, 100}), (Verdicts{kKeep, kPause}));
}

TEST_F(AdherenceTest, CountsFromWhenThePlanBecameActive) {
  now_ = {.ops = now_.ops + 1'000'000, .followed = now_.followed};
  adherence_.activated(now_);
  adherence_.converge();
  check({100});
  now_ = {.ops = now_.ops + 1'000'000, .followed = now_.followed};
  adherence_.replaced(now_);
  EXPECT_EQ(check({100, 100}), (Verdicts{kKeep, kPause}));
}

}  // namespace
}  // namespace tensorpager::guide
