#include "tensorpager/pager/plan_cursor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tensorpager::pager {
namespace {

using namespace base;
using plan::Fill;
using plan::Leave;
using plan::StorageId;
using Kind = Action::Kind;

constexpr StorageId kWeight{0};
constexpr StorageId kFirst{1};
constexpr StorageId kSecond{2};
constexpr Bytes kWeightSize{64 << 10};
constexpr Bytes kFirstSize{20 << 10};
constexpr Bytes kSecondSize{40 << 10};

//            op 0   1      2      3      4
// weight    |====|        |......|======|       page-out after 0, page-in submitted at 2
// first     |====|               |======|      page-out after 0, page-in queued behind the weight's page-out
// second         |======|                      computes waits for first's place
trace::Trace window() {
  return {.storages = {{.bytes = kWeightSize, .entry = true}, {.bytes = kFirstSize}, {.bytes = kSecondSize}},
          .ops = {{.name = "a", .reads = {kWeight}, .births = {kFirst}},
                  {.name = "b", .births = {kSecond}, .deaths = {kSecond}},
                  {.name = "c"},
                  {.name = "d", .reads = {kWeight, kFirst}},
                  {.name = "e", .reads = {kFirst}, .deaths = {kFirst}}}};
}

plan::Plan plan_of_window() {
  return {
      .budget = 1_MiB,
      .ops = 5,
      .rows = {{.storage = kWeight,
                .bytes = kWeightSize,
                .offset = 0,
                .begin = 0,
                .need = 0,
                .end = 1,
                .fill = Fill::kBoundary,
                .leave = Leave::kPageOut},
               {.storage = kFirst,
                .bytes = kFirstSize,
                .offset = 65536,
                .begin = 0,
                .need = 0,
                .end = 1,
                .leave = Leave::kPageOut},
               {.storage = kSecond, .bytes = kSecondSize, .offset = 65536, .begin = 1, .need = 1, .end = 2, .wait = 2},
               {.storage = kWeight,
                .bytes = kWeightSize,
                .offset = 131072,
                .begin = 2,
                .need = 3,
                .end = 5,
                .fill = Fill::kPageIn,
                .leave = Leave::kBoundary},
               {.storage = kFirst,
                .bytes = kFirstSize,
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
    plan::OpSignature op{.name = plan::name_hash(name)};
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

  static std::unique_ptr<Block> block_of(Bytes size) {
    auto block = std::make_unique<Block>();
    block->size = block->charged = size;
    return block;
  }

  std::unique_ptr<Block> weight_block_ = block_of(kWeightSize), first_block_ = block_of(kFirstSize),
                         second_block_ = block_of(kSecondSize);
  Block& weight_ = *weight_block_;
  Block& first_ = *first_block_;
  Block& second_ = *second_block_;
  PlanCursor cursor_{std::make_shared<const plan::Agenda>(window(), plan_of_window())};
  bool was_expected_ = false;
};

TEST_F(PlanCursorTest, TurnsRowsIntoActionsAtTheirOps) {
  EXPECT_EQ(begin("a", {kWeightSize}), std::vector<Action>());
  make(first_);
  EXPECT_EQ(end(), (std::vector<Action>{{Kind::kPageOut, &weight_}, {Kind::kPageOut, &first_}}));
  EXPECT_EQ(begin("b"), (std::vector<Action>{{Kind::kAwait, &weight_}, {Kind::kAwait, &first_}}));
  make(second_);
  EXPECT_EQ(end(), std::vector<Action>());
  EXPECT_EQ(begin("c"), (std::vector<Action>{{Kind::kPageIn, &weight_, 131072}}));
  end();
  EXPECT_EQ(begin("d", {kWeightSize, kFirstSize}),
            (std::vector<Action>{{.kind = Kind::kPageIn, .block = &first_, .offset = 0, .may_be_dirty = true}}));
  end();
  begin("e", {kFirstSize});
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
        .storages = {{.bytes = kWeightSize, .entry = true}, {.bytes = kFirstSize, .entry = true}},
        .ops = {{.name = "a", .reads = {kFirst}}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}}};
    trace.ops[3].reads = {kWeight};
    const plan::Plan plan{.budget = 1_MiB,
                          .ops = 5,
                          .rows = {{.storage = kFirst,
                                    .bytes = kFirstSize,
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
                                    .bytes = kFirstSize,
                                    .begin = birth,
                                    .need = birth,
                                    .end = birth + 1,
                                    .wait = 1}}};
    PlanCursor cursor(std::make_shared<const plan::Agenda>(trace, plan));
    Block weight, first;
    weight.size = weight.charged = kWeightSize;
    first.size = first.charged = kFirstSize;
    first.number = 7;
    cursor.bind(kWeight, weight);
    cursor.bind(kFirst, first);
    std::vector<Action> awaited;
    for (std::uint32_t op = 0; op < 5; ++op) {
      std::vector<Action> actions;
      ASSERT_TRUE(cursor.begin_op(cursor.agenda().signature(op), {}, actions));
      for (const Action& action : actions)
        if (action.number == first.number) awaited.push_back(action);
      Block temporary;
      temporary.size = temporary.charged = kFirstSize;
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
  const auto temporary = block_of(kFirstSize);
  make(*temporary);
  make(first_);
  cursor_.died(*temporary);
  end();
  EXPECT_EQ(cursor_.block_of(kFirst), &first_);
  EXPECT_EQ(cursor_.misses(), 0u);
  begin("b");
  const auto unknown = block_of(kFirstSize);
  make(*unknown);
  make(second_);
  end();
  EXPECT_EQ(cursor_.block_of(kSecond), &second_);
  EXPECT_EQ(cursor_.misses(), 1u);
}

TEST_F(PlanCursorTest, KnowsWhereABirthGoes) {
  EXPECT_EQ(cursor_.place_of_birth(kFirstSize, kFirstSize), std::nullopt) << "no op is under way";
  begin("a", {kWeightSize});
  EXPECT_EQ(cursor_.place_of_birth(kFirstSize, kFirstSize), 65536u);
  EXPECT_EQ(cursor_.place_of_birth(kFirstSize, kFirstSize), 86016u) << "it has its block: this goes between rows";
  EXPECT_EQ(cursor_.place_of_birth(1_MiB, 1_MiB), std::nullopt);
}

TEST_F(PlanCursorTest, WaitsForAnInsertedOpToPass) {
  run_a();
  EXPECT_EQ(begin("print", {kWeightSize}), std::vector<Action>());
  EXPECT_FALSE(was_expected_);
  const auto unknown = block_of(kFirstSize);
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
  EXPECT_EQ(begin("d", {kWeightSize, kFirstSize}),
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
  begin("c", {kSecondSize});
  EXPECT_TRUE(was_expected_);
  EXPECT_EQ(cursor_.misses(), 1u);
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
  plan::OpSignature op{.name = plan::name_hash("d")};
  op.add(kWeightSize);
  op.add(kFirstSize);
  std::vector<Action> actions;
  EXPECT_TRUE(cursor_.begin_op(op, touched, actions));
  EXPECT_EQ(cursor_.block_of(kWeight), renewed.get());
  EXPECT_EQ(cursor_.block_of(kFirst), &first_);
}

TEST_F(PlanCursorTest, ForgetsABlockThatDied) {
  run_a();
  cursor_.died(first_);
  EXPECT_EQ(cursor_.block_of(kFirst), nullptr);
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

// --- where blocks are to be

constexpr StorageId kOld{0};   // alive all the time
constexpr StorageId kMade{1};  // by op 0
constexpr StorageId kRare{2};  // used by op 1 only
constexpr Bytes kPart{20 << 10};

/// Op 0 makes a storage and two temporaries; op 1 uses what is below meanwhile.
//              offset  op 0   1
// temporaries       0  |====|
// made         48 KiB  |===========|
// old          96 KiB  |===========|
// rare        200 KiB         |====|   page-in at 1, page-out after it
class PlacesTest : public PlanCursorTest {
 protected:
  static trace::Trace window() {
    return {.storages = {{.bytes = kPart, .entry = true}, {.bytes = kPart}, {.bytes = kWeightSize, .entry = true}},
            .ops = {{.name = "make", .reads = {kOld}, .births = {kMade}, .temporary = Bytes(48 << 10)},
                    {.name = "use", .reads = {kRare, kMade}, .deaths = {kMade}}}};
  }
  static plan::Plan plan_of_window() {
    const auto row = [](StorageId storage, Bytes bytes, std::uint64_t offset, std::uint32_t begin, std::uint32_t end,
                        Fill fill, Leave leave) {
      return plan::Row{.storage = storage,
                       .bytes = bytes,
                       .offset = offset,
                       .begin = begin,
                       .need = begin,
                       .end = end,
                       .fill = fill,
                       .leave = leave};
    };
    return {.budget = 1_MiB,
            .ops = 2,
            .rows = {row(kOld, kPart, 96 << 10, 0, 2, Fill::kBoundary, Leave::kBoundary),
                     row(kMade, kPart, 48 << 10, 0, 2, Fill::kBorn, Leave::kDies),
                     row(plan::kTemporary, Bytes(48 << 10), 0, 0, 1, Fill::kBorn, Leave::kDies),
                     row(kRare, kWeightSize, 200 << 10, 1, 2, Fill::kPageIn, Leave::kPageOut)}};
  }
  PlacesTest() { places_.bind(kOld, *old_); }

  std::vector<Action> begin(const char* name, std::vector<Bytes> sizes) {
    plan::OpSignature op{.name = plan::name_hash(name)};
    for (const Bytes size : sizes) op.add(size);
    std::vector<Action> actions;
    EXPECT_TRUE(places_.begin_op(op, {}, actions));
    return actions;
  }
  void end() {
    std::vector<Action> actions;
    places_.end_op(actions);
  }
  /// Where the op under way is to make it.
  std::optional<std::uint64_t> make(Block& block) {
    const auto place = places_.place_of_birth(block.size, block.charged);
    places_.created(block);
    return place;
  }
  void run_use() {
    begin("use", {kWeightSize, kPart});
    end();
  }

  std::unique_ptr<Block> old_ = block_of(kPart), made_ = block_of(kPart), scratch_ = block_of(kPart),
                         large_ = block_of(Bytes(28 << 10)), another_ = block_of(kPart);
  PlanCursor places_{std::make_shared<const plan::Agenda>(window(), plan_of_window())};
};

TEST_F(PlacesTest, LearnsWhichOfSeveralOfOneSizeLives) {
  begin("make", {kPart});
  EXPECT_EQ(make(*scratch_), 48u << 10);  // by its size it may be either
  EXPECT_EQ(make(*made_), 0u);
  places_.died(*scratch_);
  end();
  run_use();
  places_.died(*made_);
  begin("make", {kPart});
  EXPECT_EQ(make(*scratch_), 0u);
  EXPECT_EQ(make(*made_), 48u << 10);
}

TEST_F(PlacesTest, PutsATemporaryThatCameFirstThisTimeWhereTemporariesGo) {
  begin("make", {kPart});
  make(*made_);
  end();
  run_use();
  places_.died(*made_);
  begin("make", {kPart});
  EXPECT_EQ(make(*large_), 0u);
  EXPECT_EQ(make(*made_), 48u << 10);
}

TEST_F(PlacesTest, PutsTemporariesIntoGapsOfTheirRowAndThenBetweenRows) {
  begin("make", {kPart});
  EXPECT_EQ(make(*made_), 48u << 10);
  EXPECT_EQ(make(*large_), 0u);
  EXPECT_EQ(make(*scratch_), 28u << 10);
  places_.died(*large_);
  EXPECT_EQ(make(*another_), 0u);
  const auto more = block_of(kPart);
  EXPECT_EQ(make(*more), 68u << 10);
  const auto too_much = block_of(Bytes(400 << 10));
  EXPECT_EQ(make(*too_much), std::nullopt);
}

TEST_F(PlacesTest, SaysWhereABlockIsToBeNow) {
  const auto rare = block_of(kWeightSize);
  places_.bind(kRare, *rare);
  begin("make", {kPart});
  EXPECT_EQ(places_.place_of(*old_), 96u << 10);
  EXPECT_EQ(places_.place_of(*rare), std::nullopt);
  EXPECT_EQ(places_.place_of(*scratch_), std::nullopt);
  make(*made_);
  end();
  begin("use", {kWeightSize, kPart});
  EXPECT_EQ(places_.place_of(*rare), 200u << 10);
  EXPECT_EQ(places_.planned_space(), Bytes((200 << 10) + (64 << 10)));
}

TEST_F(PlacesTest, PagesOutWhatAWindowFindsAndThePlanHasBelow) {
  const auto rare = block_of(kWeightSize);
  rare->number = 7;
  places_.bind(kRare, *rare);
  const std::vector<Action> leaves = {{Kind::kPageOut, rare.get()},
                                      {.kind = Kind::kAwaitQueued, .block = rare.get(), .number = 7}};
  const auto run_window = [&] {
    const std::vector<Action> actions = begin("make", {kPart});
    make(*made_);
    end();
    run_use();
    places_.died(*made_);
    return actions;
  };
  EXPECT_EQ(run_window(), leaves);
  rare->word = kAbsent;
  EXPECT_EQ(run_window(), std::vector<Action>());
  rare->arriving = true;  // for an op that used another
  EXPECT_EQ(run_window(), leaves);
  rare->arriving = false;
  rare->word = 0;  // an op of no plan has used it
  EXPECT_EQ(run_window(), leaves);
  rare->leaving = true;
  EXPECT_EQ(run_window(), std::vector<Action>());
}

// The program lets go of the old batch and keeps the new one, where the trace has it the other way round.
TEST_F(PlacesTest, MovesWhatTakesThePlaceOfAStorageThatDied) {
  begin("make", {kPart});
  make(*made_);
  end();
  run_use();
  places_.died(*old_);
  EXPECT_EQ(begin("make", {kPart}), (std::vector<Action>{{Kind::kMove, made_.get(), 96u << 10}}));
  EXPECT_EQ(places_.block_of(kOld), made_.get());
}

// The plan pages out the new batch when it is used no more: to the trace it only dies.
TEST_F(PlacesTest, PagesInWhatTakesThePlaceOfAStorageThatDied) {
  begin("make", {kPart});
  make(*made_);
  end();
  run_use();
  places_.died(*old_);
  made_->word = kAbsent;
  EXPECT_EQ(
      begin("make", {kPart}),
      (std::vector<Action>{{.kind = Kind::kPageIn, .block = made_.get(), .offset = 96u << 10, .may_be_dirty = true}}));
}

}  // namespace
}  // namespace tensorpager::pager
