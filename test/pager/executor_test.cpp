// What the pager does for an action source, and how it accounts for it.
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

TEST_F(ExecutorTest, PageInsThatAreQueuedDoNotComeAfterAllIsPagedOut) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  Block& in = make(kBlock, 2);  // `out` leaves for it
  run_op(&out);
  script_.at_end = {
      {Kind::kPageOut, &out}, {.kind = Kind::kAwaitQueued, .block = &out, .number = out.number}, {Kind::kPageIn, &in}};
  run_op(&out);  // the copy takes 5 ms
  pager_.page_out_all();
  run_op();  // submits what is queued
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_TRUE(holds(in, 2));
}

TEST_F(ExecutorTest, APageInThatNoOpHasUsedEndsWhereThePlanPagesOut) {
  start(room_for(2));  // a tier without threads: only who needs a block puts it into its place
  pager_.following().follow(&script_);
  Block& unused = make(kBlock, 1);
  pager_.page_out_all();
  script_.at_begin = {{Kind::kPageIn, &unused}};
  run_op();
  ASSERT_TRUE(unused.is_arriving());
  script_.at_begin = {{Kind::kPageOut, &unused},
                      {.kind = Kind::kAwaitQueued, .block = &unused, .number = unused.number}};
  run_op();
  EXPECT_FALSE(unused.is_arriving());
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_TRUE(holds(unused, 1));
}

TEST_F(ExecutorTest, WhatIsNotDroppedBeforeItDiesComesWritable) {
  start_following(room_for(2));
  Block& in = make(kBlock, 2);
  pager_.page_out_all();
  script_.at_begin = {{.kind = Kind::kPageIn, .block = &in, .may_be_dirty = true}, {Kind::kNeed, &in}};
  run_op();
  ASSERT_FALSE(in.is_absent());
  EXPECT_FALSE(in.is_clean());
  EXPECT_EQ(counts().spill_bytes, 0u) << "what is below is of no use to a dirty block";
  const std::uint64_t before = counts().page_outs;
  pager_.page_out_all();
  EXPECT_EQ(counts().page_outs, before + 1) << "it is copied again";
}

// A page-out of it was taken back, as an op used it too early.
TEST_F(ExecutorTest, WhatIsDirtyWhereThePlanDropsItIsGoneAllTheSame) {
  start_following(room_for(2));
  Block& used = make(kBlock, 1);
  script_.at_end = {{Kind::kDrop, &used}};
  run_op(&used);  // the copy takes 5 ms
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_EQ(counts().page_outs, 1u);
  EXPECT_TRUE(holds(used, 1));
}

TEST_F(ExecutorTest, ThePlanHasWhatLeavesUntilItAwaitsIt) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  const std::uint64_t before = counts().ops_as_planned;
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned - before, 1u);
  script_.at_begin = {{.kind = Kind::kAwait, .block = &out, .number = out.number}};
  script_.planned = 0_B;
  run_op();
  EXPECT_EQ(counts().ops_as_planned - before, 2u);
  EXPECT_EQ(counts().planned_difference_bytes, 0u);
}

TEST_F(ExecutorTest, OpsInARowAreCountedUpToOneThatIsNotAsPlanned) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  script_.planned = kBlock;
  for (int op = 0; op < 3; ++op) run_op(&block);
  script_.planned = 0_B;
  run_op(&block);
  script_.planned = kBlock;
  for (int op = 0; op < 2; ++op) run_op(&block);
  EXPECT_EQ(counts().ops_as_planned, 5u);
  EXPECT_EQ(counts().most_ops_as_planned_in_a_row, 3u);
}

TEST_F(ExecutorTest, ThePlanHasWhatItPagesOutThoughItWasCleanAndLeftAtOnce) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  leave_and_come_back(out, Kind::kAwait);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op();
  ASSERT_TRUE(out.is_absent());
  EXPECT_EQ(counts().clean_drops, 1u);
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(ExecutorTest, ThePlanDoesNotHaveWhatWasToBeDropped) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);  // dirty, against the plan
  script_.at_end = {{Kind::kDrop, &out}};
  run_op(&out);
  script_.planned = 0_B;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(ExecutorTest, ThePlanNoLongerHasWhatItsPageInsWaitFor) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  Block& in = make(kBlock, 2);
  write(out, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  script_.at_begin = {{.kind = Kind::kAwaitQueued, .block = &out, .number = out.number}, {Kind::kPageIn, &in}};
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(ExecutorTest, WaitingForACopyThatPageInsAwaitedForgetsNothingOfALaterPageOut) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  leave_and_come_back(out, Kind::kAwaitQueued);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op();
  ASSERT_TRUE(out.is_absent());
  script_.at_begin = {{.kind = Kind::kAwaitCopy, .block = &out, .number = out.number}};
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u) << "that is awaited later";
}

TEST_F(ExecutorTest, ThePlanHasWhatItPagesOutBeforeItHasComeUntilItAwaitsIt) {
  start_following(room_for(1));
  Block& in = make(kBlock, 1);
  pager_.page_out_all();
  make(kBlock, 2);  // no room is left
  script_.at_begin = {{Kind::kPageIn, &in}, {Kind::kPageIn, &in}};
  script_.at_end = {{Kind::kPageOut, &in}};
  script_.planned = kBlock + kBlock;
  run_op();
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 2u);
  script_.at_begin = {{.kind = Kind::kAwait, .block = &in, .number = in.number}};
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 3u);
  EXPECT_TRUE(in.is_absent());
}

TEST_F(ExecutorTest, WhatIsAwaitedTwiceInTheQueueLeavesOnce) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  make(kBlock, 2);
  told_.holds = true;
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  const Action await{.kind = Kind::kAwaitQueued, .block = &out, .number = out.number};
  script_.at_begin = {await, await};
  script_.planned = kBlock;
  run_op();
  told_.holds = false;
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(ExecutorTest, WhatAnotherSourcePagedOutIsNotThisOnes) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  Script other;
  other.planned = 0_B;
  pager_.following().follow(&other);
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
  pager_.following().follow(&script_);
}

TEST_F(ExecutorTest, AnOpTakesTheLockOnceUnlessItsWindowEnds) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  script_.ended = 0;
  run_op(&block);
  EXPECT_EQ(script_.ended, 0) << "its end takes no lock";
  run_op(&block);
  EXPECT_EQ(script_.ended, 1);
  counts();
  EXPECT_EQ(script_.ended, 2) << "whoever takes the lock comes after the op";
  script_.at_end = {{Kind::kPageOut, &block}};
  run_op(&block);
  EXPECT_EQ(script_.ended, 3);
}

TEST_F(ExecutorTest, AnOpTakesTheLockOnceWhateverItsArgumentsNeed) {
  start_following(room_for(4));
  Block &below = make(kBlock, 1), &arriving = make(kBlock, 2), &resident = make(kBlock, 3);
  pager_.page_out_all();
  run_op(&resident);
  const auto locks_of_op = [&](Block& block, Access access) {
    const std::uint64_t before = pager_.locks_taken();
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, access);
    op.see(resident, Access::kRead);
    op.follow(base::name_hash("op"));
    op.admit();
    EXPECT_TRUE(block.is_pinned() && resident.is_pinned());
    return pager_.locks_taken() - before;
  };
  EXPECT_EQ(locks_of_op(resident, Access::kWrite), 1U);
  EXPECT_EQ(locks_of_op(below, Access::kRead), 1U) << "a page-in from its submission to its end";
  ASSERT_TRUE(below.is_clean());
  EXPECT_EQ(locks_of_op(below, Access::kWrite), 1U) << "the first write to a clean block";
  script_.at_begin = {{Kind::kPageIn, &arriving}};
  EXPECT_EQ(locks_of_op(arriving, Access::kRead), 1U) << "a page-in by the plan";
}

TEST_F(ExecutorTest, AnArgumentThatCannotBeReadFailsTheOpWhenItIsAdmitted) {
  start_following(room_for(4));
  Block &below = make(kBlock, 1), &resident = make(kBlock, 2);
  pager_.page_out_all();
  run_op(&resident);
  told_.fails_to_read = true;
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(below, Access::kRead);
    op.see(resident, Access::kRead);
    op.follow(base::name_hash("op"));
    EXPECT_TRUE(resident.is_pinned());
    EXPECT_THROW(op.admit(), base::IoError);
  }
  EXPECT_FALSE(below.is_pinned() || resident.is_pinned());
  told_.fails_to_read = false;
  run_op(&below);
  EXPECT_TRUE(holds(below, 1));
}

TEST_F(ExecutorTest, WhatLeavesAtTheEndOfAnOpIsSubmittedWithWhateverTakesTheLockNext) {
  start_following(room_for(4));
  Block &first = make(kBlock, 1), &second = make(kBlock, 2);
  script_.ends_late = true;
  script_.at_end = {{Kind::kPageOut, &first}};
  run_op(&first);
  EXPECT_FALSE(first.is_absent());
  destroy(second);
  EXPECT_TRUE(first.is_absent()) << "a death";
  script_.at_begin = {{.kind = Kind::kAwait, .block = &first, .number = first.number}};
  run_op();
  EXPECT_EQ(first.residence, Residence::kBelow);
}

TEST_F(ExecutorTest, ASourceThatIsDroppedDuringAnOpIsNotNotifiedOfItsEnd) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  script_.ended = 0;
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.follow(base::name_hash("op"));
    op.admit();
    pager_.following().follow(nullptr);
  }
  counts();
  EXPECT_EQ(script_.ended, 0);
}

TEST_F(ExecutorTest, NorIsASourceOfAnotherThread) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  Script other;
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.follow(base::name_hash("op"));
    op.admit();
    std::thread([&] { pager_.following().follow(&other); }).join();
  }
  counts();
  EXPECT_EQ(other.ended, 0);
  pager_.following().follow(nullptr);  // `other` ends here
}

TEST_F(ExecutorTest, AnOpEndsBeforeWhatItMadeDies) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  script_.ended = 0;
  run_op(&block);
  int ended_before = -1;
  script_.at_death = [&] { ended_before = script_.ended; };
  destroy(block);
  EXPECT_EQ(ended_before, 1);
}

TEST_F(ExecutorTest, WhatCannotBeWrittenStays) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  told_.fails = true;
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  script_.at_begin = {{.kind = Kind::kAwait, .block = &out, .number = out.number}};
  run_op();
  EXPECT_EQ(counts().failed_actions, 1u);
  EXPECT_FALSE(out.is_absent());
  EXPECT_TRUE(is_filled(out, 1));
  told_.fails = false;
}

TEST_F(ExecutorTest, NothingIsDoneWhereNoPlanIsFollowed) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  pager_.following().follow(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counts().handling_beside_seconds, 0.0);
  EXPECT_EQ(counts().page_outs, 0u);
  EXPECT_TRUE(holds(out, 1));
  EXPECT_EQ(counts().page_ins, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
