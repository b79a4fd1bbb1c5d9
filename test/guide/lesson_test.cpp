// What is learned of a stream: classes, what they share, and what their plans promise.
#include "tensorpager/guide/lesson.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "guide_fixture.h"

namespace tensorpager::guide {
namespace {

class LessonTest : public GuideTest {};

TEST(MachineOf, ChargesTransfersWithAllThatPagingTakesOfOps) {
  const pager::TransferCosts before{.page_out = {1, 10}, .page_in = {2, 10}, .rest = 1};
  const pager::TransferCosts after{.page_out = {2, 20}, .page_in = {4, 20}, .rest = 5};
  const machine::Machine machine = machine_of(after.since(before));
  EXPECT_EQ(machine.out.handling, std::chrono::milliseconds(300)) << "1 s for 10, and 4 s for 20";
  EXPECT_EQ(machine.in.handling, std::chrono::milliseconds(400));
}

TEST_F(LessonTest, PredictsAgainWhatPlansInForcePromise) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const machine::Machine slow = machine_of({.rates = {.out = {1e6, 1e-6}, .in = {1e6, 1e-6}}});
  const auto lesson = learn(guide_->stream(), pager_.budget(), machine);
  ASSERT_TRUE(lesson);
  const std::vector<plan::Prediction> now = lesson.value().predict_again(lesson.value(), machine);
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now.front(), lesson.value().classes.front().predicted());
  EXPECT_EQ(gain_over(lesson.value(), now), 0.0);
  const std::vector<plan::Prediction> later = lesson.value().predict_again(lesson.value(), slow);
  EXPECT_GT(later.front().step, now.front().step);
  EXPECT_EQ(gain_over(lesson.value(), {{.step = 4 * now.front().step}}), 0.75);

  for (int step = 0; step < 6; ++step) evaluate();
  const auto both = learn(guide_->stream(), pager_.budget(), machine, &lesson.value());
  ASSERT_TRUE(both);
  EXPECT_TRUE(both.value().predict_again(lesson.value(), machine).empty());
}

TEST_F(LessonTest, PlansAllClassesForTheSlabsThatThereAreNow) {
  start_guided(room_for(10), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const auto before = learn(guide_->stream(), pager_.budget(), machine);
  ASSERT_TRUE(before);
  pager_.acquire_slab_chunk(64_KiB);
  for (int step = 0; step < 6; ++step) evaluate();
  const auto after = learn(guide_->stream(), pager_.budget(), machine, &before.value());
  ASSERT_TRUE(after);
  ASSERT_EQ(after.value().classes.size(), 2u);
  for (const ClassLesson& one : after.value().classes)
    EXPECT_EQ(one.trace->slab, before.value().classes.front().trace->slab + 64_KiB);
}

TEST_F(LessonTest, KnowsOverClassesWhatOneMakesAndAnotherUsesWhicheverOfThemCameLast) {
  start_guided(room_for(10), {.plans = false});
  const machine::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const auto expect_all_known = [&] {
    const auto lesson = learn(guide_->stream(), pager_.budget(), machine);
    ASSERT_TRUE(lesson);
    ASSERT_EQ(lesson.value().classes.size(), 2u);
    for (const ClassLesson& one : lesson.value().classes)  // the first gradient dies where a window ends
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
TEST_F(LessonTest, KnowsBlocksAsTheyWereWhenTheNewestWindowOfAClassEnded) {
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
  const auto lesson = learn(guide_->stream(), pager_.budget(), machine_of({}));
  ASSERT_TRUE(lesson);
  ASSERT_EQ(lesson.value().classes.size(), 1u);
  for (const std::uint64_t block : lesson.value().classes.front().blocks) EXPECT_LE(block, last);
  for (Block* gradient : gradients_) destroy(*gradient);
}

}  // namespace
}  // namespace tensorpager::guide
