// A variable that is assigned anew in each step: the storage that an op makes continues the one of the step before,
// which the program lets go of once the op has returned.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {
namespace {

using namespace base;
using plan::Fill;
using plan::Leave;
using plan::StorageId;
using Kind = pager::Action::Kind;

constexpr StorageId kVariable{0}, kMadeOfIt{1};

//           op 0   1      2
// variable |====|      |======|     page-out after 0, page-in submitted at 2
// made     |====|
trace::Trace renewing_window() {
  return {
      .storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}},
      .ops = {
          {.name = "make", .writes = {kVariable}, .births = {kMadeOfIt}, .deaths = {kMadeOfIt}, .renews = {kVariable}},
          {.name = "other"},
          {.name = "use", .reads = {kVariable}}}};
}

plan::Plan renewing_plan() {
  const std::uint64_t bytes = kSize.count();
  return {.budget = 1_MiB,
          .ops = 3,
          .rows = {row_of(kVariable, kSize, 0, 0, 1, Fill::kBoundary, Leave::kPageOut),
                   row_of(kMadeOfIt, kSize, bytes, 0, 1, Fill::kBorn, Leave::kDies),
                   row_of(kVariable, kSize, 0, 2, 3, Fill::kPageIn, Leave::kBoundary, 1)}};
}

class RenewedStorages : public testing::Test {
 protected:
  std::vector<pager::Action> begin(const char* name, Bytes size = {}) {
    base::OpSignature op{.name = base::name_hash(name)};
    if (size > 0_B) op.add(size);
    std::vector<pager::Action> actions;
    EXPECT_TRUE(cursor_.begin_op(op, {}, actions)) << name;
    return actions;
  }
  std::vector<pager::Action> end() {
    std::vector<pager::Action> actions;
    cursor_.end_op(actions);
    return actions;
  }

  PlanCursor cursor_{std::make_shared<const Agenda>(renewing_window(), renewing_plan())};
};

TEST_F(RenewedStorages, ArePagedOutAsTheBlockThatContinuesThem) {
  std::unique_ptr<pager::Block> block = block_of(kSize);
  cursor_.bind(kVariable, *block);
  for (int step = 0; step < 3; ++step) {
    begin("make");
    std::unique_ptr<pager::Block> made = block_of(kSize);
    cursor_.created(*made);
    EXPECT_EQ(end(), std::vector<pager::Action>()) << "the block from before is about to be freed";
    cursor_.died(*block);
    block = std::move(made);
    EXPECT_EQ(begin("other"),
              (std::vector<pager::Action>{{Kind::kMove, block.get(), 0}, {Kind::kPageOut, block.get()}}));
    end();
    std::vector<pager::Action> needed = begin("use", kSize);
    ASSERT_FALSE(needed.empty());
    EXPECT_EQ(needed.back().kind, Kind::kPageIn);
    EXPECT_EQ(needed.back().block, block.get());
    end();
  }
  EXPECT_EQ(cursor_.misses(), 0u);
}

TEST_F(RenewedStorages, ArePagedOutWhenThePlanIsLeftBeforeTheNextOp) {
  const std::unique_ptr<pager::Block> before = block_of(kSize), made = block_of(kSize);
  cursor_.bind(kVariable, *before);
  begin("make");
  cursor_.created(*made);
  end();
  std::vector<pager::Action> actions;
  cursor_.leave(actions);
  EXPECT_EQ(std::ranges::count(actions, Kind::kPageOut, &pager::Action::kind), 1);
}

}  // namespace
}  // namespace tensorpager::follow
