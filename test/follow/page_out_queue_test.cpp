#include "tensorpager/follow/page_out_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::operator""_KiB;
using Kind = Action::Kind;

constexpr std::uint32_t kOps = 4;

class PageOutQueueTest : public testing::Test {
 protected:
  PageOutQueueTest() {
    first_.number = 7;
    second_.number = 8;
    queue_.add({.row = 0, .ticket = 1, .window = 0, .block = &first_, .number = 7});
    queue_.add({.row = 1, .ticket = 2, .window = 0, .block = &second_, .number = 8});
  }
  std::vector<Action> await(std::uint32_t ticket) {
    std::vector<Action> actions;
    queue_.await(ticket, actions);
    return actions;
  }
  std::vector<Action> await_queued(std::uint32_t ticket) {
    std::vector<Action> actions;
    queue_.await_queued(ticket, actions);
    return actions;
  }
  std::vector<Action> begin_window(std::uint64_t window) {
    std::vector<Action> actions;
    queue_.begin_window(window, window * kOps, actions);
    return actions;
  }
  static Action of(Kind kind, Block& block) { return {.kind = kind, .block = &block, .number = block.number}; }

  SizedBlock first_{64_KiB}, second_{64_KiB};
  PageOutQueue queue_{kOps};
};

TEST_F(PageOutQueueTest, WhoAwaitsATicketAwaitsAllOlderOnes) {
  EXPECT_EQ(await(2), (std::vector<Action>{of(Kind::kAwait, first_), of(Kind::kAwait, second_)}));
  EXPECT_TRUE(queue_.in_flight().empty());
}

TEST_F(PageOutQueueTest, AwaitsNothingTwice) {
  EXPECT_EQ(await(1).size(), 1u);
  EXPECT_TRUE(await(1).empty());
  EXPECT_EQ(await(2), std::vector<Action>{of(Kind::kAwait, second_)});
}

TEST_F(PageOutQueueTest, ATicketMeansTheNewestWindowThatSubmittedIt) {
  queue_.add({.row = 0, .ticket = 1, .window = 1, .block = &first_, .number = 9});
  EXPECT_EQ(await(1).size(), 3u);
}

TEST_F(PageOutQueueTest, ComputeAwaitsOnlyTheCopyOfWhatTheQueueHasAwaited) {
  EXPECT_EQ(await_queued(1), std::vector<Action>{of(Kind::kAwaitQueued, first_)});
  EXPECT_TRUE(await_queued(1).empty());
  EXPECT_EQ(await(2), (std::vector<Action>{of(Kind::kAwaitCopy, first_), of(Kind::kAwait, second_)}));
}

TEST_F(PageOutQueueTest, ComputeKnowsWhatTheQueueAwaitedOnceItHasWaitedForAPageIn) {
  await_queued(1);
  queue_.note_page_in(2);
  await_queued(2);  // after that page-in
  queue_.note_needed(1);
  EXPECT_EQ(queue_.in_flight().size(), 2u);
  queue_.note_needed(2);
  ASSERT_EQ(queue_.in_flight().size(), 1u);
  EXPECT_EQ(queue_.in_flight().front().ticket, 2u);
}

TEST_F(PageOutQueueTest, SkipsBlocksThatWereNeverThere) {
  queue_.add({.row = 2, .ticket = 3, .window = 0, .block = nullptr, .number = 0});
  EXPECT_EQ(await(3).size(), 2u);
  EXPECT_TRUE(queue_.in_flight().empty());
}

TEST_F(PageOutQueueTest, PageInsAwaitWhatIsOlderThanTwoWindows) {
  EXPECT_TRUE(begin_window(2).empty());
  EXPECT_EQ(begin_window(3), (std::vector<Action>{of(Kind::kAwaitQueued, first_), of(Kind::kAwaitQueued, second_)}));
  EXPECT_TRUE(queue_.in_flight().empty());
}

TEST_F(PageOutQueueTest, OnceAllAreQueuedComputeAwaitsNone) {
  await_queued(1);
  std::vector<Action> actions;
  queue_.await_all_queued(actions);
  EXPECT_EQ(actions, std::vector<Action>{of(Kind::kAwaitQueued, second_)});
  EXPECT_TRUE(await(2).empty());
}

TEST_F(PageOutQueueTest, CountsWhatWasNotSubmittedUntilThePlanWouldAwaitIt) {
  queue_.set_not_submitted({{16_KiB, 5}, {64_KiB, 6}});
  EXPECT_EQ(queue_.not_submitted(4), 80_KiB);
  EXPECT_EQ(queue_.not_submitted(5), 64_KiB);
  begin_window(1);
  EXPECT_EQ(queue_.not_submitted(4), 80_KiB);
  begin_window(2);
  EXPECT_EQ(queue_.not_submitted(4), 0_KiB);
}

}  // namespace
}  // namespace tensorpager::follow
