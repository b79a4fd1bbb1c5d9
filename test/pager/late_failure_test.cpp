// A transfer that a plan asked for fails before anybody waits for it, and the tier is well again when somebody does:
// nobody hears of it, as whoever needs the room or the bytes tries again.
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class LateFailureTest : public ExecutorTest {
 protected:
  /// It is under way until it is no longer held, and will fail.
  void begin_failing_page_out(Block& block) {
    told_.holds = told_.fails = true;
    script_.at_end = {{Kind::kPageOut, &block}};
    run_op(&block);
    ASSERT_TRUE(comes_to([&] { return told_.begun == 1; }));
  }
  /// Nobody else reaps it: transfer threads do that where a plan is followed.
  void fail_to_page_out(Block& block) {
    begin_failing_page_out(block);
    pager_.following().follow(nullptr);
    told_.holds = false;
    ASSERT_TRUE(comes_to([&] { return told_.failed == 1; }));
    told_.fails = false;
  }
  void fail_to_page_in(Block& block) {
    pager_.page_out_all();
    told_.fails_to_read = true;
    script_.at_begin = {{Kind::kPageIn, &block}};
    run_op();
    pager_.following().follow(nullptr);
    ASSERT_TRUE(comes_to([&] { return told_.failed == 1; }));
    told_.fails_to_read = false;
  }
};

TEST_F(LateFailureTest, OfAPageOutIsNoReasonToRefuseABlock) {
  start_following(room_for(2));
  Block &out = make(kBlock, 1), &other = make(kBlock, 2);
  fail_to_page_out(out);
  EXPECT_NO_THROW(make(kBlock, 3));
  EXPECT_TRUE(holds(out, 1));
  EXPECT_TRUE(holds(other, 2));
}

TEST_F(LateFailureTest, OfAPageOutIsNoReasonToRefuseAnOp) {
  start_following(room_for(2));
  Block &below = make(kBlock, 1), &out = make(kBlock, 2);
  pager_.page_out_all();
  EXPECT_TRUE(holds(out, 2));
  write(out, 2);
  Block& other = make(kBlock, 3);
  told_.begun = 0;
  fail_to_page_out(out);
  EXPECT_TRUE(holds(below, 1));
  EXPECT_TRUE(holds(out, 2));
  EXPECT_TRUE(holds(other, 3));
}

TEST_F(LateFailureTest, OfAPageOutIsNoReasonToRefuseTheOpThatAwaitsIt) {
  start_following(room_for(2));
  Block& out = make(kBlock, 1);
  begin_failing_page_out(out);
  script_.at_begin = {{.kind = Kind::kAwait, .block = &out, .number = out.number}};
  told_.holds = false;
  EXPECT_NO_THROW(run_op());
  EXPECT_EQ(counts().failed_actions, 1u);
  told_.fails = false;
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(LateFailureTest, OfAPageInIsNoReasonToRefuseTheOpThatNeedsTheBytes) {
  start_following(room_for(2));
  Block& in = make(kBlock, 1);
  fail_to_page_in(in);
  EXPECT_TRUE(holds(in, 1));
}

TEST_F(LateFailureTest, OfAPageInLeavesTheBytesToWhoeverReadsThemOutsideOps) {
  start_following(room_for(2));
  Block& in = make(kBlock, 1);
  fail_to_page_in(in);
  EXPECT_TRUE(is_filled(in, 1));
}

TEST_F(LateFailureTest, OfAPageInIsNoReasonToRefuseAnExport) {
  start_following(room_for(2));
  Block& in = make(kBlock, 1);
  fail_to_page_in(in);
  EXPECT_NO_THROW(pager_.outside().pin_export(in));
  EXPECT_TRUE(is_filled(in, 1));
  pager_.outside().unpin_export(in);
}

TEST_F(LateFailureTest, OfAPageOutByTheFuzzerIsNoReasonToRefuseAnOp) {
  Pager::Options options;
  options.budget = room_for(2);
  options.fuzz = 1;
  pager_.start(options, transfer::make_threaded_queues(std::make_unique<SlowToWrite>(told_)));
  Block& block = make(kBlock, 1);
  told_.fails = true;
  EXPECT_NO_THROW(pager_.boundaries().op_begins());
  EXPECT_EQ(counts().failed_actions, 1u);
  told_.fails = false;
  EXPECT_TRUE(holds(block, 1));
}

TEST_F(LateFailureTest, IsHeardOfWhereTheTierIsStillBroken) {
  start_following(room_for(2));
  Block &out = make(kBlock, 1), &other = make(kBlock, 2);
  fail_to_page_out(out);
  told_.fails = true;
  EXPECT_THROW(make(kBlock, 3), IoError);
  told_.fails = false;
  EXPECT_TRUE(holds(out, 1));
  EXPECT_TRUE(holds(other, 2));
}

}  // namespace
}  // namespace tensorpager::pager
