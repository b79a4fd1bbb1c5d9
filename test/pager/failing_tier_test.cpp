// A tier that fails once, at each transfer of a program in turn: nothing is lost, and the program may go on.
#include <atomic>
#include <cerrno>
#include <string>

#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

enum class Call { kReserve, kSubmitPageOut, kWaitPageOut, kSubmitPageIn, kWaitPageIn };

/// The RAM tier, but for one call.
class FailingEngine final : public transfer::Engine {
 public:
  /// From now on, the call number `countdown` (from 1) of this kind fails, once.
  void fail(Call call, int countdown) {
    call_ = call;
    countdown_ = countdown;
  }

  transfer::Slot reserve(Bytes bytes) override {
    if (is_due(Call::kReserve)) throw IoError("reserve", "the tier", bytes, ENOSPC);
    return ram_->reserve(bytes);
  }
  void release(const transfer::Slot& slot) noexcept override { ram_->release(slot); }
  transfer::Ticket submit_page_out(std::span<const std::byte> from, const transfer::Slot& slot, Bytes at) override {
    if (is_due(Call::kSubmitPageOut)) throw IoError("pwrite", "the tier", slot.bytes, ENOSPC);
    ram_->submit_page_out(from, slot, at);
    return {.number = is_due(Call::kWaitPageOut) ? kFailed : kFine};
  }
  transfer::Ticket submit_page_in(const transfer::Slot& slot, Bytes at, std::span<std::byte> to) override {
    if (is_due(Call::kSubmitPageIn)) throw IoError("pread", "the tier", slot.bytes, EIO);
    ram_->submit_page_in(slot, at, to);
    return {.number = is_due(Call::kWaitPageIn) ? kFailed : kFine};
  }
  void wait(transfer::Ticket ticket) override {
    if (ticket.number == kFailed) throw IoError("pwrite", "the tier", Bytes(0), EIO);
  }
  bool may_fail_late() const override { return true; }
  void after_fork(bool in_child) override { ram_->after_fork(in_child); }
  Bytes reserved() const override { return ram_->reserved(); }
  std::string name() const override { return "failing"; }

 private:
  static constexpr std::uint64_t kFine = 1;
  static constexpr std::uint64_t kFailed = 2;

  bool is_due(Call call) { return call == call_ && --countdown_ == 0; }

  std::unique_ptr<transfer::Engine> ram_ = transfer::make_ram_engine();
  // Transfers may run on threads of a queue's.
  std::atomic<Call> call_ = Call::kReserve;
  std::atomic<int> countdown_ = 0;
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
    auto tier = std::make_unique<FailingEngine>();
    tier_ = tier.get();
    start(room_for(4), GetParam().queued ? transfer::make_queued_engine(std::move(tier)) : std::move(tier));
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
    Block& temporary = pager_.create(kBlock);
    pager_.destroy(temporary);
  }

  FailingEngine* tier_ = nullptr;
  std::uint64_t seeds_[kBlocks] = {0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_P(FailingTierTest, AnOpFailsAsAWholeAndTheNextGoesOn) {
  int failures = 0;
  for (int countdown = 1; countdown <= 6; ++countdown) {
    SCOPED_TRACE("call " + std::to_string(countdown));
    tier_->fail(GetParam().call, countdown);
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
  tier_->fail(GetParam().call, 1);
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
  tier_->fail(GetParam().call, 2);
  EXPECT_THROW(pager_.stop(), IoError);
  pager_.stop();
  EXPECT_EQ(counts().spill_bytes, 0u);
  for (std::size_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(is_filled(*blocks_[i], seeds_[i]));
}

constexpr Failure kFailures[] = {{"Reserve", Call::kReserve},
                                 {"SubmitPageOut", Call::kSubmitPageOut},
                                 {"WaitPageOut", Call::kWaitPageOut},
                                 {"QueuedPageOut", Call::kSubmitPageOut, true},
                                 {"QueuedPageIn", Call::kSubmitPageIn, true},
                                 {"SubmitPageIn", Call::kSubmitPageIn},
                                 {"WaitPageIn", Call::kWaitPageIn}};
constexpr auto name_of_failure = [](const auto& instance) { return instance.param.name; };

INSTANTIATE_TEST_SUITE_P(Calls, FailingTierTest, testing::ValuesIn(kFailures), name_of_failure);
INSTANTIATE_TEST_SUITE_P(Calls, FailingPageOutTest, testing::ValuesIn(std::span(kFailures).first(4)), name_of_failure);
INSTANTIATE_TEST_SUITE_P(Calls, FailingPageInTest, testing::ValuesIn(std::span(kFailures).last(3)), name_of_failure);

}  // namespace
}  // namespace tensorpager::pager
