// Floor and need: what ops required, and what the program would have held had nothing been evicted.
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "executor_fixture.h"
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {
namespace {

using namespace base;

class FigureTest : public PagerTest {};

// bytes by op: first 64K made; second and the first read, 128K made: 192K; a temporary of 64K is gone when 64K are
// made.
TEST_F(FigureTest, FloorIsTheMostThatOneOpRequiredAndNeedTheMostThatWasAlive) {
  start(1_MiB);
  {
    PinSet op(pager_, Temporaries::kKeep);
    make(64_KiB, 1);
  }
  EXPECT_EQ(counts().floor_bytes, (64_KiB).count());
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(*blocks_[0], Access::kRead);
    op.admit();
    make(128_KiB, 2);
  }
  EXPECT_EQ(counts().floor_bytes, (192_KiB).count());
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(*blocks_[1], Access::kWrite);
    op.admit();
    destroy(make(64_KiB, 3));
    make(64_KiB, 4);
  }
  EXPECT_EQ(counts().floor_bytes, (192_KiB).count());
  EXPECT_EQ(counts().need_bytes, (256_KiB).count());
  pager_.page_out_all();
  EXPECT_EQ(counts().need_bytes, (256_KiB).count());
  {
    PinSet op(pager_, Temporaries::kKeep);
    for (Block* block : blocks_) op.see(*block, Access::kRead);
    op.admit();
  }
  EXPECT_EQ(counts().floor_bytes, (256_KiB).count());
}

TEST_F(FigureTest, FloorHoldsWhatCannotBeEvicted) {
  start(1_MiB);
  Block& exported = make(kBlock, 1);
  pager_.outside().pin_export(exported.data);
  pager_.storages().acquire_slab_chunk(64_KiB);
  EXPECT_TRUE(holds(make(kBlock, 2), 2));
  EXPECT_EQ(counts().floor_bytes, 3 * kBlock.count());
  EXPECT_EQ(counts().slab_bytes, kBlock.count());
  pager_.outside().unpin_export(exported);
}

TEST_F(FigureTest, FloorCountsAnExportedBlockOnceThoughAnOpTouchesIt) {
  start(1_MiB);
  Block& exported = make(kBlock, 1);
  pager_.outside().pin_export(exported.data);
  EXPECT_TRUE(holds(exported, 1));
  EXPECT_EQ(counts().floor_bytes, kBlock.count());
  Block& other = make(kBlock, 2);
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(exported, Access::kRead);
    op.admit();
    pager_.outside().unpin_export(exported);
  }
  EXPECT_TRUE(holds(exported, 1) && holds(other, 2));
  EXPECT_EQ(counts().floor_bytes, kBlock.count());
}

void run_empty_op(Pager& pager) {
  PinSet op(pager, Temporaries::kKeep);
  op.admit();
}

TEST_F(FigureTest, FloorCountsNothingTwiceOrLessThanNothingWhereThreadsShareABlock) {
  start(1_MiB);
  Block& shared = make(kBlock, 1);
  std::latch both_pin(2);
  std::latch first_ended(1);
  std::thread last;
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(shared, Access::kRead);
    op.admit();
    last = std::thread([&] {
      {
        PinSet other(pager_, Temporaries::kKeep);
        other.see(shared, Access::kRead);
        other.admit();
        both_pin.count_down();
        first_ended.wait();
      }
      run_empty_op(pager_);
    });
    both_pin.arrive_and_wait();
  }
  first_ended.count_down();
  last.join();
  EXPECT_TRUE(holds(shared, 1));
  EXPECT_EQ(counts().floor_bytes, kBlock.count());
}

TEST_F(FigureTest, FloorIsNotThrownOffByABlockThatAnotherThreadDestroys) {
  start(1_MiB);
  {
    PinSet op(pager_, Temporaries::kKeep);
    Block& block = make(kBlock, 1);
    std::thread([&] {
      destroy(block);
      run_empty_op(pager_);
    }).join();
  }
  EXPECT_TRUE(holds(make(kBlock, 2), 2));
  EXPECT_EQ(counts().floor_bytes, kBlock.count());
  EXPECT_EQ(counts().records, 1u);
}

TEST_F(FigureTest, FloorSaysWhatARefusedOpWouldHaveNeeded) {
  start(room_for(2));
  {
    PinSet op(pager_, Temporaries::kKeep);
    make(kBlock, 1);
    EXPECT_THROW(pager_.storages().create(room_for(3)), OverBudget);
  }
  EXPECT_EQ(counts().floor_bytes, 4 * kBlock.count());
}

TEST_F(FigureTest, PagingIsStallsHandlingAndMoreWhereAPlanIsFollowed) {
  start(room_for(1));
  Script source;
  pager_.following().follow(&source);
  for (std::uint64_t i = 1; i <= 3; ++i) make(kBlock, i);
  EXPECT_TRUE(holds(*blocks_.front(), 1));
  pager_.following().follow(nullptr);
  const Statistics followed = counts();
  EXPECT_EQ(followed.page_ins, 1u);
  EXPECT_GT(followed.paging_seconds, followed.stall_seconds + followed.handling_seconds);
  make(kBlock, 4);
  EXPECT_EQ(counts().paging_seconds, followed.paging_seconds) << "nobody asks";
}

TEST(PagingTime, CountsWhatIsMeasuredWithinItOnce) {
  std::atomic<std::int64_t> sum{0};
  const auto begin = std::chrono::steady_clock::now();
  {
    const PagingTime outer(true, &sum);
    const PagingTime inner(true, &sum);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(std::chrono::nanoseconds(sum), std::chrono::milliseconds(5));
  EXPECT_LE(std::chrono::nanoseconds(sum), std::chrono::steady_clock::now() - begin);
}

}  // namespace
}  // namespace tensorpager::pager
