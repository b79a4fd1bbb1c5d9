// What is found of a stream: classes, what they share, and what their plans promise.
#include "tensorpager/guide/profile.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "guide_fixture.h"
#include "tensorpager/guide/analysis.h"

namespace tensorpager::guide {
namespace {

class ProfileTest : public GuideTest {};

TEST(MachineOf, ChargesTransfersWithAllThatPagingTakesOfOps) {
  const pager::TransferCosts before{.page_out = {1, 10}, .page_in = {2, 10}, .rest = 1};
  const pager::TransferCosts after{.page_out = {2, 20}, .page_in = {4, 20}, .rest = 5};
  const machine::Machine machine = machine_of(after.since(before));
  EXPECT_EQ(machine.out.handling, std::chrono::milliseconds(300)) << "1 s for 10, and 4 s for 20";
  EXPECT_EQ(machine.in.handling, std::chrono::milliseconds(400));
}

TEST(MachineSince, GoesByTheNewTransfersOnceThereAreEnoughOfBothDirections) {
  const pager::TransferCosts before{.page_out = {16, 16}, .page_in = {16, 16}};
  const pager::TransferCosts enough{.page_out = {48, 32}, .page_in = {64, 32}};
  EXPECT_EQ(machine_since(before, enough).out.handling, std::chrono::seconds(2));
  EXPECT_EQ(machine_since(before, enough).in.handling, std::chrono::seconds(3));
  const pager::TransferCosts few{.page_out = {48, 32}, .page_in = {31, 31}};
  EXPECT_EQ(machine_since(before, few).out.handling, std::chrono::milliseconds(1500));
  EXPECT_EQ(machine_since(before, few).in.handling, std::chrono::seconds(1));
}

TEST_F(ProfileTest, PredictsActivePlansAgain) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const machine::Machine slow = machine_of({.rates = {.out = {1e6, 1e-6}, .in = {1e6, 1e-6}}});
  const auto profile = analyse(guide_->stream(), pager_.budget(), machine);
  ASSERT_TRUE(profile);
  const std::vector<plan::Prediction> now = profile.value().predict_again(profile.value(), machine);
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now.front(), profile.value().classes.front().predicted());
  EXPECT_EQ(gain_over(profile.value(), now), 0.0);
  const std::vector<plan::Prediction> later = profile.value().predict_again(profile.value(), slow);
  EXPECT_GT(later.front().step, now.front().step);
  EXPECT_EQ(gain_over(profile.value(), {{.step = 4 * now.front().step}}), 0.75);

  for (int step = 0; step < 6; ++step) evaluate();
  const auto both = analyse(guide_->stream(), pager_.budget(), machine, {.known = &profile.value()});
  ASSERT_TRUE(both);
  EXPECT_TRUE(both.value().predict_again(profile.value(), machine).empty());
}

TEST_F(ProfileTest, PlansAllClassesForTheSlabsThatThereAreNow) {
  start_guided(room_for(10), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const auto before = analyse(guide_->stream(), pager_.budget(), machine);
  ASSERT_TRUE(before);
  pager_.storages().acquire_slab_chunk(64_KiB);
  for (int step = 0; step < 6; ++step) evaluate();
  const auto after = analyse(guide_->stream(), pager_.budget(), machine, {.known = &before.value()});
  ASSERT_TRUE(after);
  ASSERT_EQ(after.value().classes.size(), 2u);
  for (const ClassProfile& one : after.value().classes)
    EXPECT_EQ(one.trace->slab, before.value().classes.front().trace->slab + 64_KiB);
}

TEST_F(ProfileTest, KnowsOverClassesWhatOneMakesAndAnotherUsesWhicheverOfThemCameLast) {
  start_guided(room_for(10), {.plans = false});
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const auto expect_all_known = [&] {
    const auto profile = analyse(guide_->stream(), pager_.budget(), machine);
    ASSERT_TRUE(profile);
    ASSERT_EQ(profile.value().classes.size(), 2u);
    for (const ClassProfile& one : profile.value().classes)  // the first gradient dies where a window ends
      EXPECT_GE(std::ranges::count_if(one.trace->storages, [](const auto& it) { return it.identity.has_value(); }),
                2 * kLayers - 1);
  };
  for (int step = 0; step < 6; ++step) {
    make_gradients();
    guide_->hint(Hint::kStepEnds);
    if (step == 5) expect_all_known();
    for (int i = 0; i <= step % 2; ++i) {
      use_gradients();
      guide_->hint(Hint::kStepEnds);
    }
  }
  expect_all_known();
  for (Block* gradient : gradients_) destroy(*gradient);
}

// Who follows is told all that happened since that window.
TEST_F(ProfileTest, KnowsBlocksAsTheyWereWhenTheNewestWindowOfAClassEnded) {
  start_guided(room_for(10), {.plans = false});
  for (int step = 0; step < 6; ++step) {
    make_gradients();
    use_gradients();
    guide_->hint(Hint::kStepEnds);
  }
  const std::uint64_t last = gradients_.back()->number;
  make_gradients();
  run_op("rare", {}, weights_[0], ++seeds_[0]);  // a window of its own class, seen once
  use_gradients();
  guide_->hint(Hint::kStepEnds);
  make_gradients();
  const auto profile = analyse(guide_->stream(), pager_.budget(), machine_of({}));
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile.value().classes.size(), 1u);
  for (const std::uint64_t block : profile.value().classes.front().blocks) EXPECT_LE(block, last);
  for (Block* gradient : gradients_) destroy(*gradient);
}

}  // namespace
}  // namespace tensorpager::guide
