// Which block is evicted while a plan is active: the one with the farthest next use, not the least recently used.
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class VictimsTest : public ExecutorTest {
 protected:
  void start_with_room_for(std::uint64_t blocks) {
    start(room_for(blocks));
    pager_.following().follow(&script_);
  }
  void run_ops(int count) {
    for (int i = 0; i < count; ++i) run_op();
  }
};

TEST_F(VictimsTest, TheFarthestNextUseLeavesNotTheLeastRecentlyUsed) {
  start_with_room_for(3);
  Block &oldest = make(kBlock, 1), &farthest = make(kBlock, 2), &newest = make(kBlock, 3);
  script_.next_uses = {{&oldest, 1}, {&farthest, 100}, {&newest, 10}};
  for (Block* block : {&oldest, &farthest, &newest}) run_op(block);
  run_ops(1);
  make(kBlock, 4);
  EXPECT_TRUE(farthest.is_absent());
  EXPECT_FALSE(oldest.is_absent());
  EXPECT_FALSE(newest.is_absent());
  pager_.boundaries().op_begins();
  make(kBlock, 5);
  EXPECT_TRUE(newest.is_absent()) << "the next farthest, though it was used last";
  EXPECT_FALSE(oldest.is_absent());
}

TEST_F(VictimsTest, TheLeastRecentlyUsedLeavesWithoutAPlan) {
  start(room_for(3));
  Block &oldest = make(kBlock, 1), &farthest = make(kBlock, 2), &newest = make(kBlock, 3);
  script_.next_uses = {{&oldest, 1}, {&farthest, 100}, {&newest, 10}};
  for (Block* block : {&oldest, &farthest, &newest}) run_op(block);
  run_ops(1);
  make(kBlock, 4);
  EXPECT_TRUE(oldest.is_absent());
}

/// An unplanned block was used `unused` ops ago; a planned one, used before it, has its next use in ten.
class UnplannedVictimTest : public VictimsTest, public testing::WithParamInterface<int> {};

TEST_P(UnplannedVictimTest, CountsAsFarAsItsLastUse) {
  constexpr int kNextUse = 10;
  const int unused = GetParam();
  start_with_room_for(2);
  Block &planned = make(kBlock, 1), &unplanned = make(kBlock, 2);
  script_.next_uses = {{&planned, kNextUse}};
  run_op(&planned);
  run_op(&unplanned);
  run_ops(unused);
  make(kBlock, 3);
  EXPECT_EQ(unplanned.is_absent(), unused > kNextUse);
  EXPECT_EQ(planned.is_absent(), unused < kNextUse);
}

INSTANTIATE_TEST_SUITE_P(Unused, UnplannedVictimTest, testing::Values(1, 9, 11, 20));

TEST_F(VictimsTest, TheLastToGoIsWhatWasAccessedSinceTheLastOp) {
  start_with_room_for(3);
  Block &accessed = make(kBlock, 1), &near = make(kBlock, 2), &far = make(kBlock, 3);
  script_.next_uses = {{&accessed, 1000}, {&near, 1}, {&far, 2}};
  pager_.page_out_all();
  for (Block* block : {&near, &far}) run_op(block);
  pager_.boundaries().op_begins();
  EXPECT_TRUE(is_filled(accessed, 1));  // outside any op
  make(kBlock, 4);
  EXPECT_TRUE(far.is_absent());
  EXPECT_FALSE(accessed.is_absent());
  make(kBlock, 5);
  EXPECT_TRUE(near.is_absent());
  EXPECT_FALSE(accessed.is_absent());
  make(room_for(3), 6);
  EXPECT_TRUE(accessed.is_absent()) << "where nothing else is left";
}

TEST_F(VictimsTest, WhatAnOpHasPinnedStaysThoughItsNextUseIsFarthest) {
  start_with_room_for(2);
  Block &pinned = make(kBlock, 1), &other = make(kBlock, 2);
  script_.next_uses = {{&pinned, 1000}, {&other, 1}};
  run_op(&pinned);
  run_op(&other);
  run_ops(1);
  {
    PinSet pins(pager_, Temporaries::kKeep);
    pins.see(pinned, Access::kRead);
    pins.admit();
    pager_.boundaries().op_begins();  // so that it is not spared for its access
    make(kBlock, 3);
    EXPECT_FALSE(pinned.is_absent());
    EXPECT_TRUE(other.is_absent());
  }
}

}  // namespace
}  // namespace tensorpager::pager
