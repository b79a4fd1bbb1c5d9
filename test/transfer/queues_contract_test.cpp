// The contract of queues, and what those with bytes must do besides. That bytes come back is tested in
// tier_contract_test.cpp.
#include "queues_contract.h"

#include <algorithm>
#include <cerrno>

#include "forwarding_tier.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

class QueuesWithBytes : public QueuesContract {
 protected:
  bool holds(const Slot& slot, std::uint64_t seed) {
    PageBuffer to(slot.bytes);
    queues_->wait(queues_->submit(PageIn{.slot = slot, .to = {to.bytes()}}));
    return to.holds(seed);
  }
};

TEST_P(QueuesWithBytes, TransfersInFlightTogetherKeepApart) {
  PageBuffer first(1_MiB, 1);
  PageBuffer second(1_MiB, 2);
  const Slot slots[] = {queues_->reserve(1_MiB), queues_->reserve(1_MiB)};
  const Ticket out[] = {queues_->submit(PageOut{.from = first.bytes(), .slot = slots[0]}),
                        queues_->submit(PageOut{.from = second.bytes(), .slot = slots[1]})};
  queues_->wait(out[1]);
  queues_->wait(out[0]);
  PageBuffer to[] = {PageBuffer(1_MiB), PageBuffer(1_MiB)};
  const Ticket in[] = {queues_->submit(PageIn{.slot = slots[0], .to = {to[0].bytes()}}),
                       queues_->submit(PageIn{.slot = slots[1], .to = {to[1].bytes()}})};
  queues_->wait(in[1]);
  queues_->wait(in[0]);
  EXPECT_TRUE(to[0].holds(1));
  EXPECT_TRUE(to[1].holds(2));
  for (const Slot& slot : slots) queues_->release(slot);
}

TEST_P(QueuesWithBytes, APageInReadsWhatThePageOutThatItIsSubmittedAfterWrote) {
  PageBuffer from(8_MiB, 5);
  PageBuffer to(8_MiB);
  const Slot slot = queues_->reserve(8_MiB);
  const Ticket out = queues_->submit(PageOut{.from = from.bytes(), .slot = slot});
  const Ticket in = queues_->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  queues_->wait(in);
  EXPECT_TRUE(to.holds(5));
  EXPECT_TRUE(queues_->is_done(out));
  EXPECT_TRUE(queues_->is_done(in));
  queues_->release(slot);
}

TEST_P(QueuesWithBytes, APageInFillsItsPartsOneAfterTheOtherBeforeWhatFollows) {
  PageBuffer from(1_MiB, 5);
  PageBuffer head(256_KiB), rest(768_KiB), whole(1_MiB);
  const Slot slot = queues_->reserve(1_MiB);
  queues_->wait(queues_->submit(PageOut{.from = from.bytes(), .slot = slot}));
  const auto join = [&] {
    const auto end = std::ranges::copy(head.bytes(), whole.bytes().begin()).out;
    std::ranges::copy(rest.bytes(), end);
  };
  queues_->wait(queues_->submit(PageIn{.slot = slot, .to = {head.bytes(), rest.bytes()}, .then = join}));
  EXPECT_TRUE(whole.holds(5));
  queues_->release(slot);
}

TEST_P(QueuesWithBytes, DoesFirstWhatAPageOutIsSubmittedAfter) {
  PageBuffer from(1_MiB, 1);
  const Slot slot = queues_->reserve(1_MiB);
  const auto first = [&] { std::ranges::copy(PageBuffer(1_MiB, 2).bytes(), from.bytes().begin()); };
  queues_->wait(queues_->submit(PageOut{.first = first, .from = from.bytes(), .slot = slot}));
  EXPECT_TRUE(holds(slot, 2));
  queues_->release(slot);
}

TEST_P(QueuesWithBytes, CopiesNothingWhereWhatComesFirstFails) {
  PageBuffer from(kSize, 2);
  const auto fails = [] { throw IoError("mprotect", "a block", 1_MiB, ENOMEM); };
  EXPECT_THROW(queues_->wait(queues_->submit(PageOut{.first = fails, .from = from.bytes(), .slot = stored_})), IoError);
  EXPECT_TRUE(holds(stored_, 1));
}

// Whatever was under way: the memory is the caller's again, and so is the slot.
TEST_P(QueuesWithBytes, MayBeToldThatNobodyWantsATransfer) {
  PageBuffer from(4_MiB, 1);
  PageBuffer to(4_MiB);
  const Slot stored = queues_->reserve(4_MiB);
  queues_->wait(queues_->submit(PageOut{.from = PageBuffer(4_MiB, 9).bytes(), .slot = stored}));
  const Slot slot = queues_->reserve(4_MiB);
  for (int round = 0; round < 20; ++round) {
    const Ticket first = queues_->submit(PageOut{.from = from.bytes(), .slot = slot});
    const Ticket second = queues_->submit(PageOut{.from = from.bytes(), .slot = slot});
    const Ticket in = queues_->submit(PageIn{.slot = stored, .to = {to.bytes()}});
    queues_->cancel(second);
    queues_->cancel(in);
    queues_->cancel(first);
    std::ranges::fill(from.bytes(), std::byte{3});
    std::ranges::fill(to.bytes(), std::byte{3});
  }
  EXPECT_EQ(static_cast<int>(to.bytes().back()), 3);
  EXPECT_TRUE(holds(stored, 9));
  queues_->release(slot);
  queues_->release(stored);
}

/// The RAM tier, whose writes fail.
class ReadOnlyTier final : public ForwardingTier {
 public:
  void write(std::span<const std::byte> from, const Slot&, Bytes) override {
    throw IoError("pwrite", "the tier", Bytes(from.size()), ENOSPC);
  }
  bool may_fail_late() const override { return true; }
};

using FailingQueuesCase = std::unique_ptr<Queues> (*)(std::unique_ptr<Tier>);

TEST(Queues, TellOfAFailureOnceAndSayThatItMayComeLate) {
  static constexpr FailingQueuesCase kMakers[] = {
      [](std::unique_ptr<Tier> tier) { return make_synchronous_queues(std::move(tier)); },
      [](std::unique_ptr<Tier> tier) { return make_threaded_queues(std::move(tier)); }};
  for (const FailingQueuesCase make : kMakers) {
    EXPECT_FALSE(make(make_ram_tier())->may_fail_late());
    const auto queues = make(std::make_unique<ReadOnlyTier>());
    EXPECT_TRUE(queues->may_fail_late());
    PageBuffer from(4_KiB, 1);
    const Slot slot = queues->reserve(4_KiB);
    EXPECT_THROW(queues->wait(queues->submit(PageOut{.from = from.bytes(), .slot = slot})), IoError);
    EXPECT_EQ(queues->reserved(), 4_KiB);
    queues->release(slot);
  }
}

std::unique_ptr<Tier> file() { return make_file_tier(testing::TempDir()); }

const QueuesCase kQueues[] = {{"FileAtOnce", [] { return make_synchronous_queues(file()); }},
                              {"RamAtOnce", [] { return make_synchronous_queues(make_ram_tier()); }},
                              {"FileOnThreads", [] { return make_threaded_queues(file()); }},
                              {"RamOnThreads", [] { return make_threaded_queues(make_ram_tier()); }}};

INSTANTIATE_TEST_SUITE_P(Queues, QueuesContract, testing::ValuesIn(kQueues), name_of_queues);
INSTANTIATE_TEST_SUITE_P(Queues, QueuesWithBytes, testing::ValuesIn(kQueues), name_of_queues);

}  // namespace
}  // namespace tensorpager::transfer
