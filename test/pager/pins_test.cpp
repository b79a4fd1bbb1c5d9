#include "tensorpager/pager/pins.h"

#include <gtest/gtest.h>

#include <memory>

namespace tensorpager::pager {
namespace {

class PinsTest : public testing::Test {
 protected:
  PinsTest() { t_state.pinned = 0; }
  ~PinsTest() override { t_state.pinned = 0; }

  /// A record, which `pins_` deletes.
  Block& make(std::uint64_t word = 0) {
    auto block = std::make_unique<Block>();
    block->charged = base::Bytes(64);
    block->word = word;
    pins_.note_record();
    return *block.release();
  }

  std::atomic<std::uint64_t> clock_{7};
  Pins pins_{clock_};
};

TEST_F(PinsTest, CountTheBytesOfABlockOnceHoweverOftenItIsPinned) {
  Block& block = make();
  ASSERT_TRUE(pins_.pin_if_ready(block, Access::kWrite));
  ASSERT_TRUE(pins_.pin_if_ready(block, Access::kRead));
  EXPECT_EQ(t_state.pinned, 64);
  EXPECT_EQ(block.last_use, 7u);
  pins_.unpin(block);
  EXPECT_EQ(t_state.pinned, 64);
  pins_.unpin(block);
  EXPECT_EQ(t_state.pinned, 0);
  pins_.end_record(block);
}

TEST_F(PinsTest, AreRefusedIfTheBlockIsAbsentOrCleanAndToBeWritten) {
  Block& absent = make(kAbsent);
  EXPECT_FALSE(pins_.pin_if_ready(absent, Access::kRead));
  Block& clean = make(kClean);
  EXPECT_FALSE(pins_.pin_if_ready(clean, Access::kWrite));
  ASSERT_TRUE(pins_.pin_if_ready(clean, Access::kRead));
  pins_.unpin(clean);
  pins_.end_record(absent);
  pins_.end_record(clean);
}

TEST_F(PinsTest, KeepTheRecordOfADeadBlockUntilTheLastIsGone) {
  Block& block = make();
  ASSERT_TRUE(pins_.pin_if_ready(block, Access::kRead));
  ASSERT_TRUE(pins_.pin_if_ready(block, Access::kRead));
  pins_.end_record(block);
  EXPECT_EQ(t_state.pinned, 0) << "the memory is gone";
  EXPECT_EQ(pins_.records(), 1u);
  pins_.unpin(block);
  EXPECT_EQ(pins_.records(), 1u);
  pins_.unpin(block);
  EXPECT_EQ(pins_.records(), 0u);
}

TEST_F(PinsTest, LeaveTheRecordOfAnExportedBlockToTheExport) {
  Block& block = make(kExport);
  ASSERT_TRUE(pins_.pin_if_ready(block, Access::kRead));
  EXPECT_EQ(t_state.pinned, 0) << "exports count apart";
  pins_.unpin(block);
  pins_.end_record(block);
  EXPECT_EQ(pins_.records(), 1u);
  pins_.forget(block);
  EXPECT_EQ(pins_.records(), 0u);
}

}  // namespace
}  // namespace tensorpager::pager
