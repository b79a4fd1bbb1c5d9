// What ops keep resident: admission, results and temporaries (R1), and blocks that die early (R7).
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class PinSetTest : public PagerTest {
 protected:
  std::uint64_t pins() { return counts().pins; }
};

TEST_F(PinSetTest, WhatAnOpSeesStaysUntilItEnds) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  pager_.page_out_all();
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.admit();
    EXPECT_EQ(pins(), 1u);
    pager_.page_out_all();
    EXPECT_FALSE(block.is_absent());
    EXPECT_TRUE(is_filled(block, 1));
    EXPECT_EQ(counts().faults, 0u);
  }
  EXPECT_EQ(pins(), 0u);
  pager_.page_out_all();
  EXPECT_TRUE(block.is_absent());
}

TEST_F(PinSetTest, ABlockStaysUntilTheLastOfNestedOpsEnds) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  PinSet outer(pager_, Temporaries::kKeep);
  outer.see(block, Access::kRead);
  outer.admit();
  {
    PinSet inner(pager_, Temporaries::kKeep);
    inner.see(block, Access::kWrite);
    inner.admit();
    EXPECT_EQ(inner.parent(), &outer);
  }
  pager_.page_out_all();
  EXPECT_FALSE(block.is_absent());
}

TEST_F(PinSetTest, EvictsTheLeastRecentlyUsedOfWhatItDoesNotNeed) {
  start(room_for(4));
  std::vector<Block*> made;
  for (std::uint64_t i = 0; i < 4; ++i) {
    pager_.boundaries().op_begins();
    made.push_back(&make(kBlock, i));
  }
  pager_.boundaries().op_begins();
  EXPECT_TRUE(holds(*made[0], 0));
  make(kBlock, 4);
  EXPECT_FALSE(made[0]->is_absent());
  EXPECT_TRUE(made[1]->is_absent());
  EXPECT_FALSE(made[2]->is_absent());
}

// Three of five blocks fit. The op that wants all of them is refused; what it had pinned goes with it.
TEST_F(PinSetTest, AnOpThatDoesNotFitIsRefusedAsAWhole) {
  start(room_for(3));
  std::vector<Block*> made;
  for (std::uint64_t i = 0; i < 5; ++i) made.push_back(&make(kBlock, i));
  try {
    PinSet op(pager_, Temporaries::kKeep);
    for (Block* block : made) op.see(*block, Access::kWrite);
    op.admit();
    FAIL() << "five blocks were admitted in the room of three";
  } catch (const OverBudget& error) {
    EXPECT_EQ(error.budget(), room_for(3));
    EXPECT_GT(error.asked() + error.pinned(), error.budget());
  }
  EXPECT_EQ(pins(), 0u);
  EXPECT_EQ(counts().page_ins, 0u);
  EXPECT_EQ(counts().live_blocks, 5u);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(holds(*made[i], i));
}

TEST_F(PinSetTest, ACreationThatDoesNotFitChangesNothing) {
  start(room_for(3));
  Block& block = make(kBlock, 1);
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.admit();
    EXPECT_THROW(pager_.storages().create(room_for(3)), OverBudget);
    EXPECT_EQ(pins(), 1u);
  }
  EXPECT_EQ(counts().live_blocks, 1u);
  EXPECT_EQ(counts().records, 1u);
  EXPECT_EQ(counts().live_bytes, kBlock.count());
  make(room_for(3), 2);
  EXPECT_TRUE(holds(block, 1));
}

class DuplicateTest : public PinSetTest, public testing::WithParamInterface<bool> {};

TEST_P(DuplicateTest, OneStorageReadAndWrittenByOneOpIsWritten) {
  const bool read_first = GetParam();
  enum class State { kResident, kClean, kAbsent };
  start(1_MiB);
  for (const State state : {State::kResident, State::kClean, State::kAbsent}) {
    Block& block = make(kBlock, 1);
    if (state != State::kResident) pager_.page_out_all();
    EXPECT_TRUE(state != State::kClean || holds(block, 1));
    {
      PinSet op(pager_, Temporaries::kKeep);
      op.see(block, read_first ? Access::kRead : Access::kWrite);
      op.see(block, read_first ? Access::kWrite : Access::kRead);
      op.see(block, Access::kRead);
      op.admit();
      EXPECT_FALSE(block.is_clean());
      EXPECT_EQ(t_state.pinned, kBlock.count()) << "its bytes count once";
      fill(block, 2);
    }
    EXPECT_EQ(pins(), 0u);
    pager_.page_out_all();
    EXPECT_TRUE(holds(block, 2));
    EXPECT_EQ(counts().write_faults, 0u);
    destroy(block);
  }
}

INSTANTIATE_TEST_SUITE_P(Order, DuplicateTest, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "ReadFirst" : "WriteFirst"; });

TEST_F(PinSetTest, WhatAnOpAllocatesStaysUntilItEnds) {
  start(1_MiB);
  {
    PinSet op(pager_, Temporaries::kKeep);
    Block& block = make(kBlock, 1);
    pager_.page_out_all();
    EXPECT_FALSE(block.is_absent());
  }
  pager_.page_out_all();
  EXPECT_TRUE(blocks_[0]->is_absent());
}

TEST_F(PinSetTest, WhatAPythonKernelAllocatesOrReceivesMayGo) {
  start(1_MiB);
  PinSet op(pager_, Temporaries::kLetGo);
  Block& made = make(kBlock, 1);
  op.keep(made);
  EXPECT_EQ(pins(), 0u);
  pager_.page_out_all();
  EXPECT_TRUE(made.is_absent());
}

TEST_F(PinSetTest, AResultOfAnInnerOpStaysUntilTheOuterEnds) {
  start(1_MiB);
  PinSet outer(pager_, Temporaries::kKeep);
  {
    PinSet inner(pager_, Temporaries::kKeep);
    outer.keep(make(kBlock, 1));
  }
  pager_.page_out_all();
  EXPECT_FALSE(blocks_[0]->is_absent());
}

TEST_F(PinSetTest, AnOpThatThrowsLeavesNoPins) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  try {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kWrite);
    op.admit();
    make(kBlock, 2);
    throw std::runtime_error("a kernel failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(pins(), 0u);
  pager_.page_out_all();
  EXPECT_TRUE(block.is_absent());
}

TEST_F(PinSetTest, ABlockThatDiesPinnedGivesItsMemoryBackAtOnceAndItsRecordLater) {
  start(room_for(2));
  PinSet outer(pager_, Temporaries::kKeep);
  {
    PinSet inner(pager_, Temporaries::kKeep);
    Block& first = make(kBlock, 1);
    outer.keep(first);
    destroy(first);
    EXPECT_EQ(counts().live_bytes, 0u);
    EXPECT_EQ(pins(), 0u);
    make(room_for(2), 2);  // all of the budget
    destroy(*blocks_[0]);
    EXPECT_EQ(counts().records, 2u);
  }
  EXPECT_EQ(counts().records, 1u) << "the outer op still refers to the first";
}

TEST_F(PinSetTest, AnAddressIsFoundWhileItsBlockLives) {
  start(1_MiB);
  Block& block = make(kBlock, 1);
  EXPECT_EQ(pager_.storages().find(block.data), &block);
  pager_.page_out_all();
  EXPECT_EQ(pager_.storages().find(block.data), &block);
  const std::byte* data = block.data;
  destroy(block);
  EXPECT_EQ(pager_.storages().find(data), nullptr);
}

}  // namespace
}  // namespace tensorpager::pager
