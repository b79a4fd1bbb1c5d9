// Programs that repeat themselves, over the real pager: what is learned of them is followed, and their bytes stay
// right.
#include "tensorpager/guide/guide.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../pager/pager_fixture.h"
#include "tensorpager/base/records.h"
#include "tensorpager/pager/recorded_op.h"

namespace tensorpager::guide {
namespace {

using namespace base;
using pager::Access;
using pager::Block;

/// A net of some layers that is trained: each layer's op reads its weight and what came before, and makes what comes
/// next; on the way back that is freed, and the weight is written.
class GuideTest : public pager::PagerTest {
 protected:
  static constexpr std::size_t kLayers = 8;

  void start_guided(Bytes budget, Guide::Options options = {.waits = true, .refines = false}) {
    options.say = [this](const std::string& line) { said_.push_back(line); };
    start(budget);
    guide_.emplace(pager_, std::move(options));
    pager_.set_sink(&*guide_);
    for (std::size_t i = 0; i < kLayers; ++i) weights_.push_back(&make(kBlock, seeds_[i] = i));
  }
  /// Another, which has seen nothing yet.
  void restart_guide(Guide::Options options) {
    guide_->stop();
    pager_.set_sink(nullptr);
    options.say = [this](const std::string& line) { said_.push_back(line); };
    guide_.emplace(pager_, std::move(options));
    pager_.set_sink(&*guide_);
  }
  void TearDown() override {
    guide_->stop();
    pager_.set_sink(nullptr);
    PagerTest::TearDown();
  }

  /// One op: reads and checks blocks, writes one if any, makes one of this seed if `makes`.
  Block* run_op(const std::string& name, std::vector<std::pair<Block*, std::uint64_t>> read, Block* written = nullptr,
                std::uint64_t seed = 0, bool makes = false) {
    names_.push_back(std::make_unique<std::string>(name));
    pager_.at_op_boundary();
    pager::PinSet pins(pager_, pager::Temporaries::kKeep);
    pager::Touches touches;
    for (const auto& [block, expected] : read) pins.see(*block, Access::kRead), touches.add(*block, Access::kRead);
    if (written != nullptr) pins.see(*written, Access::kWrite), touches.add(*written, Access::kWrite);
    pins.follow(plan::name_hash(name));
    pins.admit();
    std::optional<pager::RecordedOp> recorded;
    if (base::EventSink* const sink = pager_.sink())
      recorded.emplace(*sink, pins, OpFacts{.name = *names_.back(), .backward = name == "backward"}, touches);
    for (const auto& [block, expected] : read) EXPECT_TRUE(pager::is_filled(*block, expected)) << name;
    if (written != nullptr) pager::fill(*written, seed);
    return makes ? &make(kBlock, seed) : nullptr;
  }

  void forward(const std::string& kind) {
    outputs_.push_back(run_op(kind, {{weights_[0], seeds_[0]}}, nullptr, 100, true));
    for (std::size_t i = 1; i < kLayers; ++i) {
      run_op("item", {});  // of something small
      outputs_.push_back(
          run_op(kind, {{weights_[i], seeds_[i]}, {outputs_[i - 1], 100 + i - 1}}, nullptr, 100 + i, true));
    }
  }
  void run_micro_step() {
    forward("layer");
    for (std::size_t i = kLayers; i-- > 0;) {
      run_op("backward", {{outputs_[i], 100 + i}}, weights_[i], ++seeds_[i]);
      destroy(*outputs_[i]);
    }
    outputs_.clear();
  }
  void train() {
    run_micro_step();
    guide_->hint(Hint::kStepEnds);
  }
  void train_by_micro_steps() {
    for (int i = 0; i < 3; ++i) run_micro_step();
    guide_->hint(Hint::kOptimizerBegins);
    for (std::size_t i = 0; i < kLayers; ++i) run_op("update", {}, weights_[i], ++seeds_[i]);
    guide_->hint(Hint::kOptimizerEnds);
  }
  void evaluate(const std::string& kind = "layer") {
    forward(kind);
    run_op("score", {{outputs_.back(), 100 + kLayers - 1}});
    for (Block* block : outputs_) destroy(*block);
    outputs_.clear();
    guide_->hint(Hint::kStepEnds);
  }

  /// Gradients live from one of two windows into the other, in which they are used, and into the next, which makes
  /// others.
  void make_gradients() {
    for (std::size_t i = 0; i < kLayers; ++i) {
      if (gradients_[i] != nullptr) destroy(*gradients_[i]);
      gradients_[i] = run_op("backward", {{weights_[i], seeds_[i]}}, nullptr, 200 + i, true);
    }
  }
  void use_gradients() {
    for (std::size_t i = 0; i < kLayers; ++i) run_op("update", {{gradients_[i], 200 + i}}, weights_[i], ++seeds_[i]);
  }

  std::optional<Guide> guide_;
  std::vector<std::string> said_;
  std::vector<Block*> weights_, outputs_;
  std::vector<Block*> gradients_ = std::vector<Block*>(kLayers);
  std::uint64_t seeds_[kLayers] = {};

 private:
  std::vector<std::unique_ptr<std::string>> names_;
};

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
  EXPECT_NE(said_.front().find("windows of 16 ops"), std::string::npos) << said_.front();
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
  EXPECT_NE(said_.front().find("windows like one of"), std::string::npos) << said_.front();
  const std::uint64_t followed = counts().followed_ops;
  const std::uint64_t notes_before = notes;
  for (int step = 20; step < 60; ++step) train_with_notes(step);
  EXPECT_FALSE(guide_->is_resting()) << "the next window may be another";
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

TEST_F(GuideTest, LearnsAnewWhereTheProgramGoesOnToSomethingElse) {
  start_guided(room_for(9));
  for (int step = 0; step < 8; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  for (int step = 0; step < 60; ++step) evaluate();
  EXPECT_GE(guide_->progress().plans, 2u);
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 5; ++step) evaluate();
  EXPECT_EQ(counts().followed_ops - followed, 5 * (kLayers + 1));
}

TEST_F(GuideTest, RestsWhileThePlanHolds) {
  start_guided(room_for(9));
  for (int step = 0; step < 20; ++step) train();
  ASSERT_TRUE(guide_->is_resting());
  EXPECT_EQ(pager_.sink(), nullptr);
  const std::uint64_t recorded = guide_->stream().ops.size();
  for (int step = 0; step < 2000; ++step) train();
  EXPECT_TRUE(guide_->is_resting());
  EXPECT_EQ(guide_->stream().ops.size(), recorded);
  EXPECT_EQ(counts().plan_misses, 0u);
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_EQ(guide_->progress().followed_share, 1.0);
}

TEST_F(GuideTest, WakesWhereTheProgramGoesOnToSomethingElse) {
  start_guided(room_for(9));
  for (int step = 0; step < 20; ++step) train();
  ASSERT_TRUE(guide_->is_resting());
  int steps = 0;
  for (; steps < 2000 && guide_->progress().plans < 2; ++steps) evaluate();
  EXPECT_GE(guide_->progress().plans, 2u);
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 5; ++step) evaluate();
  EXPECT_EQ(counts().followed_ops - followed, 5 * (kLayers + 1));
  for (int step = 0; step < 100; ++step) evaluate();
  EXPECT_TRUE(guide_->is_resting());
}

TEST_F(GuideTest, RestsWhereAllFitsAndPlansWhenItNoLongerDoes) {
  start_guided(room_for(20));
  for (int step = 0; step < 20; ++step) train();
  EXPECT_TRUE(guide_->is_resting());
  Block* more[6];
  for (Block*& block : more) block = &make(kBlock, 7);
  for (int step = 0; step < 2000 && guide_->progress().plans == 0; ++step) train();
  EXPECT_EQ(guide_->progress().plans, 1u);
  for (Block* block : more) destroy(*block);
}

TEST_F(GuideTest, NeverRestsWhereItIsToRecordAll) {
  start_guided(room_for(9), {.waits = true, .rests = false, .refines = false});
  for (int step = 0; step < 50; ++step) train();
  EXPECT_FALSE(guide_->is_resting());
  EXPECT_NE(pager_.sink(), nullptr);
}

TEST_F(GuideTest, PlansAgainFromTheTimesSeenUntilNothingIsGained) {
  start_guided(room_for(9), {.waits = true});
  for (int step = 0; step < 4; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  const double predicted = guide_->progress().predicted_window_seconds;
  for (int step = 4; step < 100; ++step) train();
  EXPECT_TRUE(guide_->is_resting());
  EXPECT_NE(guide_->progress().predicted_window_seconds, predicted);
  constexpr std::uint64_t kMostRefined = 3;
  EXPECT_GE(guide_->progress().plans, 1u);
  EXPECT_LE(guide_->progress().plans, 1 + kMostRefined);
  EXPECT_EQ(counts().followed_ops, 97 * 2 * kLayers);
  EXPECT_EQ(counts().plan_misses, 0u);
  EXPECT_EQ(said_.size(), guide_->progress().plans);
}

TEST_F(GuideTest, PlansAgainAlsoWhereTheFirstLookFoundNothing) {
  start_guided(room_for(9), {.waits = true});
  for (const char* kind : {"one", "two", "three"}) evaluate(kind);  // no two windows alike
  ASSERT_EQ(guide_->progress().plans, 0u);
  for (int step = 0; step < 100 && guide_->progress().plans == 0; ++step) train();
  ASSERT_EQ(guide_->progress().plans, 1u);
  const double predicted = guide_->progress().predicted_window_seconds;
  for (int step = 0; step < 200; ++step) train();
  EXPECT_NE(guide_->progress().predicted_window_seconds, predicted);
}

TEST(MachineOf, ChargesTransfersWithAllThatPagingTakesOfOps) {
  const pager::TransferCosts before{.page_out = {1, 10}, .page_in = {2, 10}, .rest = 1};
  const pager::TransferCosts after{.page_out = {2, 20}, .page_in = {4, 20}, .rest = 5};
  const plan::Machine machine = machine_of(after.since(before));
  EXPECT_EQ(machine.out.handling, std::chrono::milliseconds(300)) << "1 s for 10, and 4 s for 20";
  EXPECT_EQ(machine.in.handling, std::chrono::milliseconds(400));
}

TEST_F(GuideTest, PredictsAgainWhatPlansInForcePromise) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const plan::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
  const plan::Machine slow = machine_of({.rates = {.out = {1e6, 1e-6}, .in = {1e6, 1e-6}}});
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

TEST_F(GuideTest, PlansAllClassesForTheSlabsThatThereAreNow) {
  start_guided(room_for(10), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const plan::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
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

TEST_F(GuideTest, KnowsOverClassesWhatOneMakesAndAnotherUsesWhicheverOfThemCameLast) {
  start_guided(room_for(10), {.plans = false});
  const plan::Machine machine = machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}});
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
TEST_F(GuideTest, KnowsBlocksAsTheyWereWhenTheNewestWindowOfAClassEnded) {
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

/// A plan for what was recorded so far, as from files.
std::vector<plan::GivenPlan> given_from(const trace::Stream& stream, Bytes budget) {
  const auto lesson = learn(stream, budget, machine_of({.rates = {.out = {1e9, 1e-6}, .in = {1e9, 1e-6}}}));
  const ClassLesson& one = lesson.value().classes.front();
  return {{.trace = *one.trace, .plan = one.agenda->plan()}};
}

TEST_F(GuideTest, FollowsAGivenPlanFromTheFirstWindowOn) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const std::vector<plan::GivenPlan> given = given_from(guide_->stream(), room_for(9));
  restart_guide({.waits = true});
  guide_->begin_with(lesson_of(given));
  const std::uint64_t followed = counts().followed_ops, missed = counts().plan_misses;
  for (int step = 0; step < 30; ++step) train();
  EXPECT_GE(counts().followed_ops - followed, 29 * 2 * kLayers);
  EXPECT_LE(counts().plan_misses - missed, 4u);
  EXPECT_EQ(guide_->progress().plans, 1u);
  EXPECT_EQ(said_.back().substr(0, 7), "given: ");
  EXPECT_TRUE(guide_->is_resting());
}

TEST_F(GuideTest, FollowsWhatAnEarlierSessionPlanned) {
  const plan::PlanCache cache(testing::TempDir() + "/guide_plan_cache");
  std::filesystem::remove_all(testing::TempDir() + "/guide_plan_cache");
  start_guided(room_for(9), {.waits = true, .refines = false, .cache = cache});
  for (int step = 0; step < 6; ++step) train();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_.back().substr(0, 9), "planned: ");
  restart_guide({.waits = true, .refines = false, .cache = cache});
  const std::uint64_t followed = counts().followed_ops;
  for (int step = 0; step < 6; ++step) train();
  EXPECT_TRUE(said_.back().starts_with("planned in an earlier run: ")) << said_.back();
  EXPECT_GE(counts().followed_ops - followed, 2 * 2 * kLayers);
  restart_guide({.waits = true, .refines = false});
  for (int step = 0; step < 6; ++step) train();
  EXPECT_EQ(said_.back().substr(0, 9), "planned: ");
}

TEST_F(GuideTest, SaysThatPlansCannotBeKept) {
  write_whole_file(testing::TempDir() + "/no_directory", "a file");
  start_guided(room_for(9),
               {.waits = true, .refines = false, .cache = plan::PlanCache(testing::TempDir() + "/no_directory/plans")});
  for (int step = 0; step < 6; ++step) train();
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[0].substr(0, 20), "plans are not kept: ") << said_[0];
  EXPECT_EQ(said_[1].substr(0, 9), "planned: ");
}

TEST_F(GuideTest, LetsGoOfAGivenPlanThatTheProgramDoesNotKeepTo) {
  start_guided(room_for(9), {.plans = false});
  for (int step = 0; step < 6; ++step) train();
  const std::vector<plan::GivenPlan> given = given_from(guide_->stream(), room_for(9));
  restart_guide({.waits = true, .refines = false});
  guide_->begin_with(lesson_of(given));
  for (int step = 0; step < 200 && guide_->progress().plans < 2; ++step) evaluate("other");
  EXPECT_EQ(guide_->progress().plans, 2u);
  EXPECT_EQ(said_.back().substr(0, 9), "planned: ");
}

TEST_F(GuideTest, LetsGoOfThePlanWhereItIsStopped) {
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
