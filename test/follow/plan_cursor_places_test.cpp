// Where a plan has blocks, and what comes and goes so that they are there.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using plan::Fill;
using plan::Leave;
using plan::StorageId;
using Kind = Action::Kind;

constexpr StorageId kOld{0};     // alive all the time
constexpr StorageId kMade{1};    // by op 0
constexpr StorageId kSeldom{2};  // used by op 1 only
constexpr Bytes kPart{20 << 10};
constexpr Bytes kSeldomSize{64 << 10};

/// Op 0 makes a storage and two temporaries; op 1 uses what is below meanwhile.
//              offset  op 0   1
// temporaries       0  |====|
// made         48 KiB  |===========|
// old          96 KiB  |===========|
// rare        200 KiB         |====|   page-in at 1, page-out after it
class PlacesTest : public testing::Test {
 protected:
  static trace::Trace window() {
    return {.storages = {{.bytes = kPart, .entry = true}, {.bytes = kPart}, {.bytes = kSeldomSize, .entry = true}},
            .ops = {{.name = "make", .reads = {kOld}, .births = {kMade}, .temporary = Bytes(48 << 10)},
                    {.name = "use", .reads = {kSeldom, kMade}, .deaths = {kMade}}}};
  }
  static plan::Plan plan_of_window() {
    return {.budget = 1_MiB,
            .ops = 2,
            .rows = {row_of(kOld, kPart, 96 << 10, 0, 2, Fill::kBoundary, Leave::kBoundary),
                     row_of(kMade, kPart, 48 << 10, 0, 2, Fill::kBorn, Leave::kDies),
                     row_of(plan::kTemporary, Bytes(48 << 10), 0, 0, 1, Fill::kBorn, Leave::kDies),
                     row_of(kSeldom, kSeldomSize, 200 << 10, 1, 2, Fill::kPageIn, Leave::kPageOut)}};
  }
  PlacesTest() { places_.bind(kOld, *old_); }

  std::vector<Action> begin(const char* name, std::vector<Bytes> sizes) {
    base::OpSignature op{.name = base::name_hash(name)};
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
    begin("use", {kSeldomSize, kPart});
    end();
  }

  std::unique_ptr<Block> old_ = block_of(kPart), made_ = block_of(kPart), scratch_ = block_of(kPart),
                         large_ = block_of(Bytes(28 << 10)), another_ = block_of(kPart);
  PlanCursor places_{std::make_shared<const follow::Agenda>(window(), plan_of_window())};
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
  const auto rare = block_of(kSeldomSize);
  places_.bind(kSeldom, *rare);
  begin("make", {kPart});
  EXPECT_EQ(places_.place_of(*old_), 96u << 10);
  EXPECT_EQ(places_.place_of(*rare), std::nullopt);
  EXPECT_EQ(places_.place_of(*scratch_), std::nullopt);
  make(*made_);
  end();
  begin("use", {kSeldomSize, kPart});
  EXPECT_EQ(places_.place_of(*rare), 200u << 10);
  EXPECT_EQ(places_.planned_space(), Bytes((200 << 10) + (64 << 10)));
}

TEST_F(PlacesTest, PagesOutWhatAWindowFindsAndThePlanHasBelow) {
  const auto rare = block_of(kSeldomSize);
  rare->number = 7;
  places_.bind(kSeldom, *rare);
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
  std::vector<Action> first = leaves;
  for (const Action& action : brings(*old_, 96u << 10)) first.push_back(action);
  EXPECT_EQ(run_window(), first);
  put_below(*rare);
  EXPECT_EQ(run_window(), std::vector<Action>());
  rare->residence = pager::Residence::kArriving;  // for an op that used another
  EXPECT_EQ(run_window(), leaves);
  rare->residence = pager::Residence::kBelow;
  put_back(*rare);  // an op of no plan has used it
  EXPECT_EQ(run_window(), leaves);
  rare->residence = pager::Residence::kLeaving;
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
  put_below(*made_);
  // It takes over, and is to be there when a window begins; the pager does it once.
  EXPECT_EQ(
      begin("make", {kPart}),
      (std::vector<Action>{{.kind = Kind::kPageIn, .block = made_.get(), .offset = 96u << 10, .may_be_dirty = true},
                           {.kind = Kind::kPageIn, .block = made_.get(), .offset = 96u << 10}}));
}

}  // namespace
}  // namespace tensorpager::follow
