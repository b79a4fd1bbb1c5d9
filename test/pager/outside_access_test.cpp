// Access outside ops, which plans know nothing of.
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

using OutsideTest = ExecutorTest;

/// Reads of each what an access outside ops finds, one after the other.
void read_in_turn(std::span<Block* const> blocks, int times) {
  for (int i = 0; i < times; ++i)
    for (Block* block : blocks) static_cast<void>(*reinterpret_cast<volatile const char*>(block->data));
}

TEST_F(OutsideTest, WhatIsAccessedInTurnOutsideOpsStays) {
  start(room_for(3));  // a tier without threads: the page-in is under way until an op needs it
  pager_.following().follow(&script_);
  Block* const accessed[] = {&make(kBlock, 1), &make(kBlock, 2), &make(kBlock, 3)};
  Block& planned = make(kBlock, 4);
  pager_.page_out_all();
  script_.at_begin = {{Kind::kPageIn, &planned}};
  run_op();
  ASSERT_TRUE(planned.is_arriving());
  const std::uint64_t before = counts().page_ins;
  read_in_turn(accessed, 20);
  EXPECT_EQ(counts().page_ins - before, 4u) << "the planned one, which had been read, and each of these once";
  EXPECT_TRUE(planned.is_absent()) << "what nobody uses yet went first";
}

TEST_F(OutsideTest, WhatIsAccessedOutsideOpsStaysThoughItsNextUseIsFar) {
  start(room_for(3));
  pager_.following().follow(&script_);
  Block* const accessed[] = {&make(kBlock, 1), &make(kBlock, 2)};
  Block &soon = make(kBlock, 3), &sooner = make(kBlock, 4);
  for (Block* block : accessed) script_.next_uses[block] = 1000;
  script_.next_uses[&soon] = 2;
  script_.next_uses[&sooner] = 1;
  pager_.page_out_all();
  for (Block* block : {&soon, &sooner}) run_op(block);
  pager_.boundaries().op_begins();
  const std::uint64_t before = counts().page_ins;
  read_in_turn(accessed, 20);
  EXPECT_EQ(counts().page_ins - before, 2u);
  EXPECT_FALSE(sooner.is_absent());
}

}  // namespace
}  // namespace tensorpager::pager
