// A tier that fails once, at each transfer of a program in turn: nothing is lost, and the program may go on.
#include <atomic>
#include <cerrno>
#include <string>

#include "../transfer/failing_waits.h"
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

enum class Call { kReserve, kWrite, kWaitPageOut, kRead, kWaitPageIn };

/// Which call fails, once. Transfers may run on threads.
struct Due {
  std::atomic<Call> call = Call::kReserve;
  std::atomic<int> countdown = 0;  // from 1

  void check(Call now, const char* name, Bytes bytes, int error) {
    if (now == call && --countdown == 0) throw IoError(name, "the tier", bytes, error);
  }
};

/// The RAM tier, but for one call.
class FailingTier final : public transfer::ForwardingTier {
 public:
  explicit FailingTier(Due& due) : due_(due) {}

  transfer::Slot reserve(Bytes bytes) override {
    due_.check(Call::kReserve, "reserve", bytes, ENOSPC);
    return ForwardingTier::reserve(bytes);
  }
  void write(std::span<const std::byte> from, const transfer::Slot& slot, Bytes at) override {
    due_.check(Call::kWrite, "pwrite", slot.bytes, ENOSPC);
    ForwardingTier::write(from, slot, at);
  }
  void read(const transfer::Slot& slot, Bytes at, std::span<std::byte> to) override {
    due_.check(Call::kRead, "pread", slot.bytes, EIO);
    ForwardingTier::read(slot, at, to);
  }
  bool may_fail_late() const override { return true; }

 private:
  Due& due_;
};

struct Failure {
  const char* name;
  Call call;
  bool queued = false;
};

class FailingTierTest : public PagerTest, public testing::WithParamInterface<Failure> {
 protected:
  static constexpr std::uint64_t kBlocks = 8;

  void SetUp() override {
    auto tier = std::make_unique<FailingTier>(due_);
    if (GetParam().queued)
      start(room_for(4), transfer::make_threaded_queues(std::move(tier)));
    else
      start(room_for(4), std::make_unique<transfer::FailingWaits>(std::move(tier), [this](transfer::Direction way) {
              const Call wait = way == transfer::Direction::kOut ? Call::kWaitPageOut : Call::kWaitPageIn;
              due_.check(wait, "wait", Bytes(0), EIO);
            }));
    for (std::uint64_t i = 0; i < kBlocks; ++i) make(kBlock, i);
  }
  /// An op that reads one block, writes another and makes a third; then all that is known of them is checked.
  void run_op(std::uint64_t step) {
    const std::size_t written = (step * 5 + 3) % kBlocks;
    PinSet op(pager_, Temporaries::kKeep);
    op.see(*blocks_[step % kBlocks], Access::kRead);
    op.see(*blocks_[written], Access::kWrite);
    op.admit();
    EXPECT_TRUE(is_filled(*blocks_[step % kBlocks], seeds_[step % kBlocks]));
    seeds_[written] = 1000 + step;
    fill(*blocks_[written], seeds_[written]);
    Block& temporary = pager_.storages().create(kBlock);
    pager_.storages().destroy(temporary);
  }

  /// From now on, call number `countdown` (from 1) of this case's kind fails, once.
  void fail(int countdown) {
    due_.call = GetParam().call;
    due_.countdown = countdown;
  }

  Due due_;
  std::uint64_t seeds_[kBlocks] = {0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_P(FailingTierTest, AnOpFailsAsAWholeAndTheNextGoesOn) {
  int failures = 0;
  for (int countdown = 1; countdown <= 6; ++countdown) {
    SCOPED_TRACE("call " + std::to_string(countdown));
    fail(countdown);
    for (std::uint64_t step = 0; step < 24; ++step) {
      try {
        run_op(step);
      } catch (const IoError&) {
        ++failures;
        ASSERT_EQ(counts().pins, 0u);
        ASSERT_EQ(counts().live_blocks, kBlocks);
      }
      const Statistics now = counts();
      ASSERT_LE(now.resident_bytes + now.pooled_bytes, now.budget_bytes);
    }
    for (std::size_t i = 0; i < kBlocks; ++i) ASSERT_TRUE(holds(*blocks_[i], seeds_[i])) << "block " << i;
  }
  EXPECT_EQ(failures, 6);
}

class FailingPageOutTest : public FailingTierTest {};

TEST_P(FailingPageOutTest, LeavesTheBlockWritableWithoutAFault) {
  Block& newest = *blocks_.back();
  ASSERT_FALSE(newest.is_absent());
  fail(1);
  EXPECT_THROW(pager_.page_out_all(), IoError);
  const Statistics before = counts();
  for (Block* block : blocks_) {
    if (!block->is_absent()) fill(*block, 77);
  }
  EXPECT_EQ(counts().faults + counts().write_faults, before.faults + before.write_faults);
  EXPECT_TRUE(holds(newest, 77));
}

class FailingPageInTest : public FailingTierTest {};

TEST_P(FailingPageInTest, LetsTheEndOfTheSessionBeTriedAgain) {
  fail(2);
  EXPECT_THROW(pager_.stop(), IoError);
  pager_.stop();
  EXPECT_EQ(counts().spill_bytes, 0u);
  for (std::size_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(is_filled(*blocks_[i], seeds_[i]));
}

constexpr Failure kFailures[] = {{"Reserve", Call::kReserve},         {"SubmitPageOut", Call::kWrite},
                                 {"WaitPageOut", Call::kWaitPageOut}, {"QueuedPageOut", Call::kWrite, true},
                                 {"QueuedPageIn", Call::kRead, true}, {"SubmitPageIn", Call::kRead},
                                 {"WaitPageIn", Call::kWaitPageIn}};
constexpr auto name_of_failure = [](const auto& instance) { return instance.param.name; };

INSTANTIATE_TEST_SUITE_P(Calls, FailingTierTest, testing::ValuesIn(kFailures), name_of_failure);
INSTANTIATE_TEST_SUITE_P(Calls, FailingPageOutTest, testing::ValuesIn(std::span(kFailures).first(4)), name_of_failure);
INSTANTIATE_TEST_SUITE_P(Calls, FailingPageInTest, testing::ValuesIn(std::span(kFailures).last(3)), name_of_failure);

}  // namespace
}  // namespace tensorpager::pager
