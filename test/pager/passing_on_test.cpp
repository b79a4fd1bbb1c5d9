// Pages that are passed on to page-ins before they are copied: page-ins go on by themselves, no budget is exceeded, and
// no byte is lost when the copy fails.
#include "../transfer/child_process.h"
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class PassingOnTest : public ExecutorTest {
 protected:
  void TearDown() override {
    told_.holds = false;
    EXPECT_EQ(counts().over_budget_bytes, 0u);
    ExecutorTest::TearDown();
  }

  struct Two {
    Block& out;  // has 1; its page-out is under way until the tier is told to go on
    Block& in;   // has 2; its page-in is queued behind that
  };
  /// In a budget that has room for one.
  Two pass_on() {
    start_following(room_for(1));
    Block& out = make(kBlock, 1);
    Block& in = make(kBlock, 2);
    EXPECT_TRUE(holds(out, 1));
    write(out, 1);
    told_.holds = true;
    const int begun = told_.begun;
    script_.at_end = {{Kind::kPageOut, &out}, await_queued(out), {Kind::kPageIn, &in}};
    run_op(&out);
    EXPECT_TRUE(comes_to([&] { return told_.begun == begun + 1; }));
    EXPECT_TRUE(out.is_passed_on());
    EXPECT_TRUE(in.is_arriving());
    return {out, in};
  }
  static Action await_queued(Block& block) {
    return {.kind = Kind::kAwaitQueued, .block = &block, .number = block.number};
  }
};

TEST_F(PassingOnTest, APageInGoesOnByItselfWhenThePageOutIsDoneThatItWaitsFor) {
  const auto [out, in] = pass_on();
  EXPECT_EQ(counts().resident_bytes, kBlock.count()) << "the one that comes is charged, and no other";
  told_.holds = false;
  pager_.before_fork();  // waits for all transfers
  pager_.after_fork(false);
  EXPECT_TRUE(is_mapped(in)) << "by the transfer thread";
  const Statistics before = counts();
  const std::uint64_t calls = binding_.system_calls();
  EXPECT_TRUE(holds(in, 2));
  EXPECT_EQ(binding_.system_calls(), calls);
  EXPECT_TRUE(in.is_clean());
  EXPECT_TRUE(out.is_absent());
  EXPECT_EQ(counts().page_ins - before.page_ins, 1u);
  EXPECT_EQ(counts().page_outs - before.page_outs, 1u);
  EXPECT_GT(counts().handling_beside_seconds, before.handling_beside_seconds);
}

TEST_F(PassingOnTest, ANewBlockWaitsForTheCopyAndTakesNoPageBefore) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  told_.holds = true;
  script_.at_end = {{Kind::kPageOut, &out}, await_queued(out)};
  run_op(&out);
  ASSERT_TRUE(out.is_passed_on());
  EXPECT_EQ(counts().resident_bytes, 0u);
  go_on_soon();
  Block& born = make(kBlock, 3);
  EXPECT_FALSE(told_.holds);
  EXPECT_TRUE(is_filled(born, 3));
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(PassingOnTest, AnOpThatNeedsTheBlockWaitsForTheCopyAndPagesItIn) {
  const auto [out, in] = pass_on();
  go_on_soon();
  EXPECT_TRUE(holds(out, 1));
  EXPECT_TRUE(holds(in, 2));
}

TEST_F(PassingOnTest, ADirectReaderFindsTheBytes) {
  const auto [out, in] = pass_on();
  go_on_soon();
  EXPECT_TRUE(is_filled(out, 1));
  EXPECT_TRUE(holds(in, 2));
}

TEST_F(PassingOnTest, BlocksDieMeanwhile) {
  const auto [out, in] = pass_on();
  destroy(in);
  go_on_soon();
  destroy(out);
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_EQ(counts().spill_bytes, 0u);
}

TEST_F(PassingOnTest, WhatACancelledPageInHadTakenIsThereForTheNext) {
  const auto [out, in] = pass_on();
  script_.at_begin = {{Kind::kPageOut, &in}};
  run_op();
  ASSERT_FALSE(in.is_arriving());
  script_.at_begin = {{Kind::kPageIn, &in}};
  run_op();
  EXPECT_TRUE(in.is_arriving());
  told_.holds = false;
  EXPECT_TRUE(holds(in, 2));
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(PassingOnTest, ThePlanCountsWhatComesAndNotWhatLeaves) {
  const auto [out, in] = pass_on();
  const std::uint64_t before = counts().ops_as_planned;
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned - before, 1u);
}

TEST_F(PassingOnTest, ACopyThatFailsLeavesTheBlockItsBytesAndNothingIsReadIntoThem) {
  const auto [out, in] = pass_on();
  told_.fails = true;
  told_.holds = false;
  ASSERT_TRUE(comes_to([&] {
    run_op();
    return !out.is_absent();
  }));
  EXPECT_FALSE(in.is_arriving());
  EXPECT_EQ(counts().failed_actions, 1u);
  EXPECT_EQ(counts().resident_bytes, kBlock.count());
  EXPECT_TRUE(is_filled(out, 1));
  told_.fails = false;
  EXPECT_TRUE(holds(in, 2));
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(PassingOnTest, AnOpThatNeedsThePageInBehindAFailedCopyMakesRoomOnItsOwn) {
  const auto [out, in] = pass_on();
  told_.fails = true;
  told_.holds = false;
  ASSERT_TRUE(comes_to([&] { return told_.failed == 1; }));
  told_.fails = false;
  EXPECT_TRUE(holds(in, 2));
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(PassingOnTest, WhatTheMachineDoesNotLetGoStays) {
  start_following(room_for(2));
  Block& in = make(kBlock, 2);
  pager_.page_out_all();
  Block& first = make(kBlock, 3);  // is being copied until the tier is told to go on
  Block& out = make(kBlock, 1);
  told_.holds = true;
  take_away(first);
  script_.at_end = {{Kind::kPageOut, &out}, await_queued(out), {Kind::kPageIn, &in}};
  ASSERT_EQ(munmap(out.data, kPage.count()), 0);  // its protection cannot be changed
  run_op();
  ASSERT_TRUE(in.is_arriving());
  told_.holds = false;
  ASSERT_TRUE(comes_to([&] {
    run_op();
    return !out.is_absent();
  }));
  ASSERT_EQ(mmap(out.data, kPage.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            out.data);
  EXPECT_EQ(out.data[kPage.count()], static_cast<std::byte>(word_at(1, kPage.count())));
  EXPECT_TRUE(holds(in, 2));
}

TEST_F(PassingOnTest, AllIsThereAfterAFork) {
  const auto [out, in] = pass_on();
  told_.holds = false;
  pager_.before_fork();
  transfer::ChildProcess child([&] {
    pager_.after_fork(true);
    EXPECT_TRUE(holds(in, 2));
    EXPECT_TRUE(holds(out, 1));
  });
  pager_.after_fork(false);
  child.join();
  EXPECT_TRUE(holds(out, 1));
  EXPECT_TRUE(holds(in, 2));
}

}  // namespace
}  // namespace tensorpager::pager
