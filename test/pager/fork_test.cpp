// A fork with bytes below: both processes see all of them, and neither disturbs the other's afterwards.
#include "../transfer/child_process.h"
#include "pager_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;
using transfer::ChildProcess;
using transfer::MeetingPoint;
using transfer::Side;

class ForkTest : public PagerTest, public testing::WithParamInterface<Tier> {
 protected:
  static constexpr std::uint64_t kBlocks = 12;

  void SetUp() override {
    start(room_for(4), GetParam().make());
    for (std::uint64_t i = 0; i < kBlocks; ++i) make(kBlock, i);
    EXPECT_TRUE(holds(*blocks_[0], 0));  // clean when the fork comes
  }

  template <typename Body>
  ChildProcess fork(Body body) {
    pager_.before_fork();
    ChildProcess child([&] {
      pager_.after_fork(true);
      body();
    });
    pager_.after_fork(false);
    return child;
  }

  /// Writes two thirds of the blocks, by ops and directly, and reads all of them, so that each is paged out again and
  /// in.
  void work(std::uint64_t first_seed) {
    for (std::uint64_t round = 0; round < 3; ++round) {
      for (std::uint64_t i = 0; i < kBlocks; ++i) {
        EXPECT_TRUE(i % 3 != 0 || holds(*blocks_[i], i)) << "block " << i;
        if (i % 3 == 1) write(*blocks_[i], first_seed + i);
        if (i % 3 == 2) fill(*blocks_[i], first_seed + i);
      }
      pager_.page_out_all();
      for (std::uint64_t i = 0; i < kBlocks; ++i)
        EXPECT_TRUE(is_filled(*blocks_[i], i % 3 == 0 ? i : first_seed + i)) << "block " << i;
    }
    EXPECT_EQ(counts().over_budget_bytes, 0u);
  }
};

TEST_P(ForkTest, ParentAndChildBothSeeTheBytesOfBeforeAndTheirOwn) {
  MeetingPoint point;
  ChildProcess child = fork([&] {
    work(100);
    point.meet(Side::kChild);
    work(200);
    point.meet(Side::kChild);
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(*blocks_[i], i % 3 == 0 ? i : 200 + i));
  });
  point.meet(Side::kParent);
  work(300);
  point.meet(Side::kParent);
  child.join();
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(*blocks_[i], i % 3 == 0 ? i : 300 + i));
}

TEST_P(ForkTest, TheChildStillReadsWhatTheParentFreed) {
  MeetingPoint point;
  ChildProcess child = fork([&] {
    point.meet(Side::kChild);
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(is_filled(*blocks_[i], i)) << "block " << i;
  });
  while (!blocks_.empty()) destroy(*blocks_.back());
  for (std::uint64_t i = 0; i < kBlocks; ++i) make(kBlock, 50 + i);
  pager_.page_out_all();
  point.meet(Side::kParent);
  child.join();
}

TEST_P(ForkTest, AChildThatFreesEverythingLeavesTheParentsBytes) {
  fork([&] {
    while (!blocks_.empty()) destroy(*blocks_.back());
    EXPECT_EQ(counts().spill_bytes, 0u);
    EXPECT_EQ(counts().records, 0u);
  }).join();
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(*blocks_[i], i));
}

TEST_P(ForkTest, AChildForksInTurn) {
  fork([&] {
    work(100);
    fork([&] {
      for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(is_filled(*blocks_[i], i % 3 == 0 ? i : 100 + i));
      write(*blocks_[0], 7);
      pager_.page_out_all();
      EXPECT_TRUE(holds(*blocks_[0], 7));
    }).join();
    EXPECT_TRUE(holds(*blocks_[0], 0));
  }).join();
  for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(*blocks_[i], i));
}

INSTANTIATE_TEST_SUITE_P(Tiers, ForkTest, testing::ValuesIn(kTiers), name_of);

}  // namespace
}  // namespace tensorpager::pager
