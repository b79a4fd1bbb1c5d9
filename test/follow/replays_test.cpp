// A plan with replays: what is dropped when, which replays come before an op of the program, and which block is whose
// after them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using trace::Purity;

constexpr StorageId kSum{1}, kTanh{2}, kLoss{3};

base::OpSignature signature_of(const std::string& name, const std::vector<Block*>& touched = {}) {
  base::OpSignature signature{.name = base::name_hash(name)};
  for (const Block* block : touched) signature.add(block->size);
  return signature;
}

/// The sum dies at once; loss uses tanh, and backward uses tanh again: it is dropped in between, and rebuilt with the
/// sum.
trace::Trace window_of_a_sum() {
  trace::Trace trace;
  trace.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}, {.bytes = kSize}, {.bytes = kOtherSize}};
  trace.ops = {
      {.name = "add", .reads = {kWeight}, .births = {kSum}, .purity = Purity::kPure},
      {.name = "tanh", .reads = {kSum}, .births = {kTanh}, .deaths = {kSum}, .purity = Purity::kPure},
      {.name = "loss", .reads = {kTanh}, .births = {kLoss}},
      {.name = "other", .reads = {kLoss, kWeight}},
      {.name = "backward", .reads = {kTanh, kLoss}, .writes = {kWeight}, .deaths = {kTanh, kLoss}},
  };
  return trace;
}

Plan plan_of_a_sum() {
  return {.budget = 1_MiB,
          .ops = 7,
          .replays = {{.op = 0, .before = 4, .keeps = {kSum}}, {.op = 1, .before = 4, .keeps = {kTanh}}}};
}

class ReplaysTest : public testing::Test {
 protected:
  ReplaysTest() { cursor_.bind(kWeight, *weight_); }

  struct Ended {
    bool is_expected;
    std::vector<Action> actions;  // at its end
  };
  /// An op of the program; what it makes is kept by name.
  Ended run(const std::string& name, std::vector<Block*> touched, const std::string& made = {},
            base::Bytes size = kSize, std::vector<std::string> dying = {}) {
    Ended ended{cursor_.begin_op(signature_of(name, touched), touched, ended.actions), {}};
    ended.actions.clear();
    if (!made.empty()) create(made, size);
    if (ended.is_expected) cursor_.end_op(ended.actions);
    for (const std::string& one : dying) die(one);
    return ended;
  }
  Block& create(const std::string& name, base::Bytes size = kSize) {
    auto& block = blocks_[name];
    block = block_of(size);
    block->number = ++number_;
    cursor_.created(*block);
    return *block;
  }
  void die(const std::string& name) {
    cursor_.died(*blocks_.at(name));
    blocks_.erase(name);
  }
  Block* at(const std::string& name) { return blocks_.at(name).get(); }

  void run_until_backward() {
    run("add", {weight_.get()}, "sum");
    sum_number_ = at("sum")->number;
    run("tanh", {at("sum")}, "tanh", kSize, {"sum"});
    loss_ = run("loss", {at("tanh")}, "loss", kOtherSize);
    run("other", {at("loss"), weight_.get()});
  }
  void begin_replay(const DueReplay& due, std::vector<Block*> touched) {
    EXPECT_TRUE(cursor_.begin_op(due.signature, touched, ignored_));
  }
  void run_replays() {
    const auto first = cursor_.due_replay(next_);
    ASSERT_TRUE(first);
    begin_replay(*first, {weight_.get()});
    create("rebuilt sum");
    cursor_.end_op(ignored_);
    const auto second = cursor_.due_replay(next_);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->frees, std::vector<const Block*>{at("rebuilt sum")}) << "nobody needs it after that";
    begin_replay(*second, {at("rebuilt sum")});
    Block& fresh = create("fresh");
    cursor_.taken_over(*at("tanh"), fresh);
    blocks_.erase("fresh");
    die("rebuilt sum");
    cursor_.end_op(ignored_);
  }

  std::unique_ptr<Block> weight_ = block_of(kSize);
  std::map<std::string, std::unique_ptr<Block>> blocks_;
  std::uint64_t number_ = 0, sum_number_ = 0;
  Ended loss_{};
  std::vector<Action> ignored_;
  const base::OpSignature next_ = signature_of("backward", {weight_.get()});
  PlanCursor cursor_{std::make_shared<const Agenda>(window_of_a_sum(), plan_of_a_sum())};
};

TEST_F(ReplaysTest, DropWhatTheyRebuildAfterItsLastUse) {
  run_until_backward();
  EXPECT_EQ(loss_.actions, (std::vector<Action>{{Action::Kind::kForget, at("tanh")}}));
  EXPECT_FALSE(cursor_.knows(*at("tanh"))) << "until it is rebuilt";
}

TEST_F(ReplaysTest, ComeBeforeTheOpThatNeedsThem) {
  run("add", {weight_.get()}, "sum");
  EXPECT_FALSE(cursor_.due_replay(next_));
  run("tanh", {at("sum")}, "tanh", kSize, {"sum"});
  run("loss", {at("tanh")}, "loss", kOtherSize);
  EXPECT_FALSE(cursor_.due_replay(next_));
  run("other", {at("loss"), weight_.get()});
  const auto due = cursor_.due_replay(next_);
  ASSERT_TRUE(due);
  EXPECT_TRUE(due->is_first);
  EXPECT_EQ(due->keeps.size(), 1U);
  EXPECT_TRUE(due->frees.empty());
}

// The program may free after it what the plan has freed before its replays.
TEST_F(ReplaysTest, DoNotRunBeforeAnOpOfNoPlan) {
  run_until_backward();
  EXPECT_FALSE(cursor_.due_replay(signature_of("view")));
  EXPECT_FALSE(run("view", {}).is_expected);
  EXPECT_EQ(cursor_.misses(), 0U);
  EXPECT_TRUE(cursor_.due_replay(next_));
}

TEST(ReplaysBeforeABirth, RunThoughTheOpTouchesNothing) {
  trace::Trace trace;
  trace.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}, {.bytes = kSize}};
  trace.ops = {
      {.name = "add", .reads = {kWeight}, .births = {kSum}, .purity = Purity::kPure},
      {.name = "other", .reads = {kWeight}},
      {.name = "empty", .births = {kTanh}},
      {.name = "use", .reads = {kSum, kTanh}, .deaths = {kSum, kTanh}},
  };
  const Plan plan{.budget = 1_MiB, .ops = 5, .replays = {{.op = 0, .before = 2, .keeps = {kSum}}}};
  PlanCursor cursor(std::make_shared<const Agenda>(trace, plan));
  const auto weight = block_of(kSize), sum = block_of(kSize);
  cursor.bind(kWeight, *weight);
  std::vector<Action> ignored;
  std::vector<Block*> touched{weight.get()};
  ASSERT_TRUE(cursor.begin_op(signature_of("add", touched), touched, ignored));
  cursor.created(*sum);
  cursor.end_op(ignored);
  ASSERT_TRUE(cursor.begin_op(signature_of("other", touched), touched, ignored));
  cursor.end_op(ignored);
  EXPECT_FALSE(cursor.due_replay(signature_of("view")));
  EXPECT_TRUE(cursor.due_replay(signature_of("empty")));
}

TEST_F(ReplaysTest, KnowWhatTheOpHadMadeThoughItIsDead) {
  run_until_backward();
  EXPECT_EQ(cursor_.due_replay(next_)->keeps, std::vector{sum_number_});
}

// As dropout's noise: one op makes the storage, and the next fills it.
TEST(ReplaysOfFills, KeepWhatTheOpFills) {
  trace::Trace trace;
  trace.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}};
  trace.ops = {
      {.name = "empty", .births = {kSum}},
      {.name = "draw", .writes = {kSum}, .purity = Purity::kFills},
      {.name = "use", .reads = {kSum}},
      {.name = "other", .reads = {kWeight}},
      {.name = "use", .reads = {kSum}, .deaths = {kSum}},
  };
  const Agenda agenda(trace, {.budget = 1_MiB, .ops = 6, .replays = {{.op = 1, .before = 4, .keeps = {kSum}}}});
  ASSERT_TRUE(agenda.replays().is_replay(4));
  EXPECT_EQ(agenda.made_anew(1).size(), 1U);
  EXPECT_EQ(agenda.replays().kept_by(4, agenda.made_anew(1)), std::vector{0U});
}

TEST_F(ReplaysTest, SayWhichOpsMustBeCaptured) {
  const std::map<std::string, bool> expected{{"add", true}, {"tanh", true}, {"loss", false}};
  std::vector<Block*> touched{weight_.get()};
  for (const char* const name : {"add", "tanh", "loss"}) {
    ASSERT_TRUE(cursor_.begin_op(signature_of(name, touched), touched, ignored_));
    EXPECT_EQ(cursor_.replayed_later() != 0, expected.at(name)) << name;
    Block& made = create(name, std::string(name) == "loss" ? kOtherSize : kSize);
    cursor_.end_op(ignored_);
    EXPECT_EQ(cursor_.replayed_later(), 0U);
    touched = {&made};
  }
}

TEST_F(ReplaysTest, AreFollowedAsOpsOfTheWindow) {
  for (int window = 0; window < 3; ++window) {
    run_until_backward();
    run_replays();
    EXPECT_FALSE(cursor_.due_replay(next_));
    EXPECT_TRUE(cursor_.knows(*at("tanh")));
    EXPECT_TRUE(run("backward", {at("tanh"), at("loss"), weight_.get()}, {}, kSize, {"tanh", "loss"}).is_expected);
    EXPECT_EQ(cursor_.followed_window(), 7U);
  }
  EXPECT_EQ(cursor_.misses(), 0U);
}

TEST_F(ReplaysTest, ThatAreNotRunDisturbAndLoseNothing) {
  run_until_backward();
  while (const auto due = cursor_.due_replay(next_)) {
    begin_replay(*due, {});
    cursor_.end_op(ignored_);
  }
  EXPECT_TRUE(run("backward", {at("tanh"), at("loss"), weight_.get()}, {}, kSize, {"tanh", "loss"}).is_expected);
  EXPECT_EQ(cursor_.misses(), 0U);
}

TEST_F(ReplaysTest, AreNotTakenForTheProgramsOps) {
  run_until_backward();
  EXPECT_FALSE(run("tanh", {at("loss")}, "another", kSize, {"another"}).is_expected);
  EXPECT_EQ(cursor_.misses(), 1U);
}

TEST(Agenda, RefusesAPlanWithAnImpossibleReplay) {
  Plan plan = plan_of_a_sum();
  plan.replays.erase(plan.replays.begin());
  plan.ops = 6;
  EXPECT_THROW(Agenda(window_of_a_sum(), plan), base::InvalidArgument) << "the sum is gone";
}

}  // namespace
}  // namespace tensorpager::follow
