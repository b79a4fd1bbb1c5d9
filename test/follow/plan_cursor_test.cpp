#include "tensorpager/follow/plan_cursor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using plan::Fill;
using plan::Leave;
using plan::StorageId;
using Kind = Action::Kind;

constexpr StorageId kFirstOutput{1};
constexpr StorageId kSecondOutput{2};
constexpr Bytes kFirstOutputSize{20 << 10};
constexpr Bytes kSecondOutputSize{40 << 10};

//            op 0   1      2      3      4
// weight    |====|        |......|======|       page-out after 0, page-in submitted at 2
// first     |====|               |======|      page-out after 0, page-in queued behind the weight's page-out
// second         |======|                      computes waits for first's place
trace::Trace window() {
  return {
      .storages = {{.bytes = kWeightSize, .entry = true}, {.bytes = kFirstOutputSize}, {.bytes = kSecondOutputSize}},
      .ops = {{.name = "a", .reads = {kWeight}, .births = {kFirstOutput}},
              {.name = "b", .births = {kSecondOutput}, .deaths = {kSecondOutput}},
              {.name = "c"},
              {.name = "d", .reads = {kWeight, kFirstOutput}},
              {.name = "e", .reads = {kFirstOutput}, .deaths = {kFirstOutput}}}};
}

plan::Plan plan_of_window() {
  return {.budget = 1_MiB,
          .ops = 5,
          .rows = {{.storage = kWeight,
                    .bytes = kWeightSize,
                    .offset = 0,
                    .begin = 0,
                    .need = 0,
                    .end = 1,
                    .fill = Fill::kBoundary,
                    .leave = Leave::kPageOut},
                   {.storage = kFirstOutput,
                    .bytes = kFirstOutputSize,
                    .offset = 65536,
                    .begin = 0,
                    .need = 0,
                    .end = 1,
                    .leave = Leave::kPageOut},
                   {.storage = kSecondOutput,
                    .bytes = kSecondOutputSize,
                    .offset = 65536,
                    .begin = 1,
                    .need = 1,
                    .end = 2,
                    .wait = 2},
                   {.storage = kWeight,
                    .bytes = kWeightSize,
                    .offset = 131072,
                    .begin = 2,
                    .need = 3,
                    .end = 5,
                    .fill = Fill::kPageIn,
                    .leave = Leave::kBoundary},
                   {.storage = kFirstOutput,
                    .bytes = kFirstOutputSize,
                    .offset = 0,
                    .begin = 3,
                    .need = 3,
                    .end = 5,
                    .wait = 1,
                    .fill = Fill::kPageIn}}};
}

class PlanCursorTest : public testing::Test {
 protected:
  PlanCursorTest() { cursor_.bind(kWeight, weight_); }

  /// What is to be done before the op.
  std::vector<Action> begin(const char* name, std::vector<Bytes> sizes = {}) {
    base::OpSignature op{.name = base::name_hash(name)};
    for (const Bytes size : sizes) op.add(size);
    std::vector<Action> actions;
    was_expected_ = cursor_.begin_op(op, {}, actions);
    return actions;
  }
  /// And after it.
  std::vector<Action> end() {
    std::vector<Action> actions;
    if (was_expected_) cursor_.end_op(actions);
    return actions;
  }
  void make(Block& block) { cursor_.created(block); }
  void run_a() {
    begin("a", {kWeightSize});
    make(first_);
    end();
  }
  void run_b() {
    begin("b");
    make(second_);
    end();
    cursor_.died(second_);
  }

  std::unique_ptr<Block> weight_block_ = block_of(kWeightSize), first_block_ = block_of(kFirstOutputSize),
                         second_block_ = block_of(kSecondOutputSize);
  Block& weight_ = *weight_block_;
  Block& first_ = *first_block_;
  Block& second_ = *second_block_;
  PlanCursor cursor_{std::make_shared<const follow::Agenda>(window(), plan_of_window())};
  bool was_expected_ = false;
};

TEST_F(PlanCursorTest, TurnsRowsIntoActionsAtTheirOps) {
  EXPECT_EQ(begin("a", {kWeightSize}), brings(weight_, 0, true));
  make(first_);
  EXPECT_EQ(end(), (std::vector<Action>{{Kind::kPageOut, &weight_}, {Kind::kPageOut, &first_}}));
  EXPECT_EQ(begin("b"), (std::vector<Action>{{Kind::kAwait, &weight_}, {Kind::kAwait, &first_}}));
  make(second_);
  EXPECT_EQ(end(), std::vector<Action>());
  EXPECT_EQ(begin("c"), (std::vector<Action>{{Kind::kPageIn, &weight_, 131072}}));
  end();
  EXPECT_EQ(begin("d", {kWeightSize, kFirstOutputSize}),
            (std::vector<Action>{{.kind = Kind::kPageIn, .block = &first_, .offset = 0, .may_be_dirty = true}}));
  EXPECT_FALSE(cursor_.ends_window());
  end();
  begin("e", {kFirstOutputSize});
  EXPECT_TRUE(cursor_.ends_window());
  end();
  EXPECT_EQ(cursor_.windows(), 1u);
  EXPECT_EQ(cursor_.position(), 0u);
  EXPECT_EQ(cursor_.followed_ops(), 5u);
  EXPECT_EQ(cursor_.misses(), 0u);
}

// Of the same plan: the weight comes to where `first` was, so the queue waits for first's page-out, and `second`, which
// is born while that copy may be under way, waits for it too. After the op that needs the weight nobody has to.
TEST(PlanCursorWaits, ComputeWaitsForWhatOnlyTheQueueHasWaitedFor) {
  for (const std::uint32_t birth : {2u, 4u}) {
    SCOPED_TRACE(birth);
    trace::Trace trace{
        .storages = {{.bytes = kWeightSize, .entry = true}, {.bytes = kFirstOutputSize, .entry = true}},
        .ops = {{.name = "a", .reads = {kFirstOutput}}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}}};
    trace.ops[3].reads = {kWeight};
    const plan::Plan plan{.budget = 1_MiB,
                          .ops = 5,
                          .rows = {{.storage = kFirstOutput,
                                    .bytes = kFirstOutputSize,
                                    .begin = 0,
                                    .need = 0,
                                    .end = 1,
                                    .fill = Fill::kPageIn,
                                    .leave = Leave::kPageOut},
                                   {.storage = kWeight,
                                    .bytes = kWeightSize,
                                    .begin = 1,
                                    .need = 3,
                                    .end = 5,
                                    .wait = 1,
                                    .fill = Fill::kPageIn,
                                    .leave = Leave::kDrop},
                                   {.storage = plan::kTemporary,
                                    .bytes = kFirstOutputSize,
                                    .begin = birth,
                                    .need = birth,
                                    .end = birth + 1,
                                    .wait = 1}}};
    PlanCursor cursor(std::make_shared<const follow::Agenda>(trace, plan));
    Block weight, first;
    weight.size = weight.charged = kWeightSize;
    first.size = first.charged = kFirstOutputSize;
    first.number = 7;
    cursor.bind(kWeight, weight);
    cursor.bind(kFirstOutput, first);
    std::vector<Action> awaited;
    for (std::uint32_t op = 0; op < 5; ++op) {
      std::vector<Action> actions;
      ASSERT_TRUE(cursor.begin_op(cursor.agenda().signature(op), {}, actions));
      for (const Action& action : actions)
        if (action.number == first.number) awaited.push_back(action);
      Block temporary;
      temporary.size = temporary.charged = kFirstOutputSize;
      if (op == birth) cursor.created(temporary);
      cursor.end_op(actions);
      cursor.died(temporary);
    }
    std::vector<Action> expected = {{.kind = Kind::kAwaitQueued, .block = &first, .number = 7}};
    if (birth == 2) expected.push_back({.kind = Kind::kAwaitCopy, .block = &first, .number = 7});
    EXPECT_EQ(awaited, expected);
  }
}

TEST_F(PlanCursorTest, MatchesBirthsByTheirOrderAndTheirSizes) {
  begin("a", {kWeightSize});
  const auto temporary = block_of(kFirstOutputSize);
  make(*temporary);
  make(first_);
  cursor_.died(*temporary);
  end();
  EXPECT_EQ(cursor_.block_of(kFirstOutput), &first_);
  EXPECT_EQ(cursor_.misses(), 0u);
  begin("b");
  const auto unknown = block_of(kFirstOutputSize);
  make(*unknown);
  make(second_);
  end();
  EXPECT_EQ(cursor_.block_of(kSecondOutput), &second_);
  EXPECT_EQ(cursor_.misses(), 0u);
  EXPECT_EQ(cursor_.followed_ops(), 2u);
  EXPECT_EQ(cursor_.resized_ops(), 1u);
}

TEST_F(PlanCursorTest, KnowsWhereABirthGoes) {
  EXPECT_EQ(cursor_.place_of_birth(kFirstOutputSize, kFirstOutputSize), std::nullopt) << "no op is under way";
  begin("a", {kWeightSize});
  EXPECT_EQ(cursor_.place_of_birth(kFirstOutputSize, kFirstOutputSize), 65536u);
  EXPECT_EQ(cursor_.place_of_birth(kFirstOutputSize, kFirstOutputSize), 86016u)
      << "it has its block: this goes between rows";
  EXPECT_EQ(cursor_.place_of_birth(1_MiB, 1_MiB), std::nullopt);
}

TEST_F(PlanCursorTest, WaitsForAnInsertedOpToPass) {
  run_a();
  EXPECT_EQ(begin("print", {kWeightSize}), std::vector<Action>());
  EXPECT_FALSE(was_expected_);
  const auto unknown = block_of(kFirstOutputSize);
  make(*unknown);
  run_b();
  EXPECT_TRUE(was_expected_);
  EXPECT_EQ(cursor_.misses(), 1u);
  EXPECT_EQ(cursor_.next_use(*unknown), std::nullopt);
}

TEST_F(PlanCursorTest, FindsItsPlaceAgainAfterOpsThatWereLeftOut) {
  run_a();
  begin("c");
  EXPECT_FALSE(was_expected_);
  // Two in a row are found further on: what b would have waited for is awaited, and c's page-in is made up for.
  EXPECT_EQ(begin("d", {kWeightSize, kFirstOutputSize}),
            (std::vector<Action>{{Kind::kAwait, &weight_},
                                 {Kind::kAwait, &first_},
                                 {Kind::kPageIn, &weight_, 131072},
                                 {.kind = Kind::kPageIn, .block = &first_, .offset = 0, .may_be_dirty = true}}));
  EXPECT_TRUE(was_expected_);
  EXPECT_EQ(cursor_.position(), 3u);
  EXPECT_EQ(cursor_.misses(), 1u);
}

TEST_F(PlanCursorTest, FindsTheWindowsBeginAgain) {
  run_a();
  run_b();
  begin("a", {kWeightSize});
  EXPECT_FALSE(was_expected_);
  begin("b");
  EXPECT_TRUE(was_expected_);
  EXPECT_EQ(cursor_.position(), 1u);
  EXPECT_EQ(cursor_.windows(), 1u);
}

TEST_F(PlanCursorTest, FollowsAnOpWithOtherSizesAndCountsIt) {
  run_a();
  run_b();
  begin("c", {kSecondOutputSize});
  EXPECT_TRUE(was_expected_);
  end();
  EXPECT_EQ(cursor_.misses(), 0u);
  EXPECT_EQ(cursor_.resized_ops(), 1u);
}

TEST_F(PlanCursorTest, IsNotMisledByOpsThatTouchNothing) {
  run_a();
  begin("item");
  EXPECT_FALSE(was_expected_);
  begin("b");  // of something small
  EXPECT_TRUE(was_expected_);
  end();
  EXPECT_EQ(cursor_.position(), 1u) << "it made nothing";
  run_b();
  EXPECT_EQ(cursor_.position(), 2u);
  EXPECT_EQ(cursor_.followed_ops(), 2u);
  EXPECT_EQ(cursor_.misses(), 0u);
}

TEST_F(PlanCursorTest, CountsAnOpThatMadeSomethingAsAMiss) {
  run_a();
  begin("empty");
  make(second_);
  EXPECT_EQ(cursor_.misses(), 1u);
}

TEST_F(PlanCursorTest, KnowsAStorageByTheOpThatTouchesIt) {
  cursor_.died(weight_);
  run_a();
  run_b();
  begin("c");
  end();
  const auto renewed = block_of(kWeightSize);
  Block* const touched[] = {renewed.get(), &first_};
  base::OpSignature op{.name = base::name_hash("d")};
  op.add(kWeightSize);
  op.add(kFirstOutputSize);
  std::vector<Action> actions;
  EXPECT_TRUE(cursor_.begin_op(op, touched, actions));
  EXPECT_EQ(cursor_.block_of(kWeight), renewed.get());
  EXPECT_EQ(cursor_.block_of(kFirstOutput), &first_);
}

TEST_F(PlanCursorTest, ForgetsABlockThatDied) {
  run_a();
  cursor_.died(first_);
  EXPECT_EQ(cursor_.block_of(kFirstOutput), nullptr);
  run_b();
  begin("c");
  end();
  EXPECT_EQ(begin("d", {kWeightSize}), std::vector<Action>());
}

TEST_F(PlanCursorTest, KnowsTheNextUseOfWhatItKnows) {
  EXPECT_EQ(cursor_.next_use(weight_), 1u) << "by the op that is expected";
  begin("a", {kWeightSize});
  EXPECT_EQ(cursor_.next_use(weight_), 3u);
  EXPECT_EQ(cursor_.next_use(first_), std::nullopt);
  make(first_);
  end();
  EXPECT_EQ(cursor_.next_use(first_), 3u);
}

}  // namespace
}  // namespace tensorpager::follow
