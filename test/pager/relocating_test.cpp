// Blocks that a plan takes away: absent at once, while a transfer thread moves their pages and copies them. Who needs
// one nevertheless has it back where it was.
#include <sys/mman.h>

#include "../transfer/child_process.h"
#include "executor_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class RelocatingTest : public ExecutorTest {
 protected:
  struct Two {
    Block& first;   // is being copied until the tier is told to go on
    Block& second;  // waits for that
  };
  Two take_two_away() {
    start_following(room_for(4));
    const Two two{make(kBlock, 1), make(kBlock, 2)};
    told_.holds = true;
    take_away(two.first);
    EXPECT_TRUE(comes_to([&] { return told_.begun == 1; }));
    take_away(two.second);
    return two;
  }
  /// As a plan does.
  void await(Block& first, Block& second) {
    script_.at_begin = {{.kind = Kind::kAwait, .block = &first, .number = first.number},
                        {.kind = Kind::kAwait, .block = &second, .number = second.number}};
    run_op();
  }
};

TEST_F(RelocatingTest, NoOpCallsTheMachineForAPageOut) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  told_.holds = true;
  take_away(first);
  ASSERT_TRUE(comes_to([&] { return told_.begun == 1; }));
  const std::uint64_t before = binding_.system_calls();
  take_away(second);
  EXPECT_EQ(binding_.system_calls(), before);
  EXPECT_EQ(counts().resident_bytes, room_for(2).count()) << "until it is below";
  told_.holds = false;
  await(first, second);
  EXPECT_EQ(counts().page_outs, 2u);
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_TRUE(is_filled(second, 2));
}

TEST_F(RelocatingTest, WhatIsNeededAfterAllIsWhereItWasWithoutAPageIn) {
  const auto [first, second] = take_two_away();
  EXPECT_TRUE(holds(second, 2));
  write(second, 3);
  EXPECT_EQ(counts().page_outs, 0u) << "its copy never began";
  go_on_soon();
  EXPECT_TRUE(holds(first, 1));
  EXPECT_FALSE(first.is_clean());
  EXPECT_EQ(counts().page_outs, 1u);
  EXPECT_EQ(counts().page_ins, 0u);
  EXPECT_TRUE(is_filled(second, 3));
}

TEST_F(RelocatingTest, ADirectReaderHasWhatLeavesBack) {
  const auto [first, second] = take_two_away();
  EXPECT_TRUE(is_filled(second, 2));
  EXPECT_EQ(counts().faults, 0u) << "its pages did not move yet";
  go_on_soon();
  EXPECT_TRUE(is_filled(first, 1));
  EXPECT_EQ(counts().faults, 1u);
  EXPECT_EQ(counts().page_ins, 0u);
}

TEST_F(RelocatingTest, AnExportHasWhatLeavesBack) {
  const auto [first, second] = take_two_away();
  pager_.outside().pin_export(second);
  EXPECT_TRUE(is_filled(second, 2));
  EXPECT_EQ(counts().page_ins, 0u);
  pager_.outside().unpin_export(second);
  told_.holds = false;
}

TEST_F(RelocatingTest, BlocksDieWhileTheyLeave) {
  const auto [first, second] = take_two_away();
  destroy(second);
  go_on_soon();
  destroy(first);
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_EQ(counts().spill_bytes, 0u);
}

TEST_F(RelocatingTest, WhatTheMachineDoesNotLetGoStays) {
  const auto [first, second] = take_two_away();
  ASSERT_EQ(munmap(second.data, kPage.count()), 0);  // its protection cannot be changed
  told_.holds = false;
  await(first, second);
  EXPECT_EQ(counts().failed_actions, 1u);
  ASSERT_EQ(mmap(second.data, kPage.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            second.data);
  EXPECT_FALSE(second.is_absent());
  EXPECT_EQ(second.data[kPage.count()], static_cast<std::byte>(word_at(2, kPage.count())));
  EXPECT_EQ(counts().spill_bytes, kBlock.count()) << "the first";
}

TEST_F(RelocatingTest, WhatLeavesIsThereAfterAFork) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  pager_.before_fork();
  transfer::ChildProcess child([&] {
    pager_.after_fork(true);
    EXPECT_TRUE(is_filled(out, 1));
    fill(out, 2);
    EXPECT_TRUE(holds(out, 2));
  });
  pager_.after_fork(false);
  child.join();
  EXPECT_TRUE(holds(out, 1));
}

}  // namespace
}  // namespace tensorpager::pager
