#include "tensorpager/transfer/threaded_queues.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "child_process.h"
#include "forwarding_tier.h"
#include "page_buffer.h"
#include "tensorpager/base/clock.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

enum class Way { kOut, kIn };

/// The RAM tier, with a guest that runs before each transfer, on the thread that makes it; what it throws, the transfer
/// throws.
class GuestTier final : public ForwardingTier {
 public:
  explicit GuestTier(std::function<void(Way, Bytes)> guest) : guest_(std::move(guest)) {}

  void write(std::span<const std::byte> from, const Slot& slot, Bytes at) override {
    guest_(Way::kOut, Bytes(from.size()));
    ForwardingTier::write(from, slot, at);
  }
  void read(const Slot& slot, Bytes at, std::span<std::byte> to) override {
    guest_(Way::kIn, Bytes(to.size()));
    ForwardingTier::read(slot, at, to);
  }
  bool may_fail_late() const override { return true; }

 private:
  std::function<void(Way, Bytes)> guest_;
};

std::unique_ptr<Queues> queues_over(std::function<void(Way, Bytes)> guest) {
  return make_threaded_queues(std::make_unique<GuestTier>(std::move(guest)));
}

TEST(ThreadedQueues, ReturnsBeforeTheTransferIsDone) {
  std::atomic<bool> go{false};
  const auto queues = queues_over([&](Way, Bytes) {
    while (!go) std::this_thread::yield();
  });
  PageBuffer from(64_KiB, 1);
  PageBuffer to(64_KiB);
  const Slot slot = queues->reserve(64_KiB);
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  const Ticket in = queues->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  EXPECT_FALSE(queues->is_done(out));
  EXPECT_FALSE(queues->is_done(in));
  go = true;
  queues->wait(in);
  EXPECT_TRUE(to.holds(1));
  queues->wait(out);
  queues->release(slot);
}

TEST(ThreadedQueues, KeepsTheOrderOfEachWayAndLetsThemPassEachOther) {
  std::vector<std::uint64_t> order[2];
  std::atomic<bool> go{false};
  const auto queues = queues_over([&](Way way, Bytes bytes) {
    while (way == Way::kOut && !go) std::this_thread::yield();
    order[static_cast<std::size_t>(way)].push_back(bytes.count());
  });
  PageBuffer memory(64_KiB, 1);
  const Slot slot = queues->reserve(64_KiB);
  std::vector<Ticket> out, in;
  for (const Bytes bytes : {12_KiB, 4_KiB, 8_KiB}) {
    out.push_back(queues->submit(PageOut{.from = memory.part(0_B, bytes), .slot = slot}));
    in.push_back(queues->submit(PageIn{.slot = slot, .at = 32_KiB, .to = {memory.part(32_KiB, bytes)}}));
  }
  for (const Ticket ticket : in) queues->wait(ticket);
  EXPECT_FALSE(queues->is_done(out.front()));
  go = true;
  for (const Ticket ticket : out) queues->wait(ticket);
  for (const auto& way : order) EXPECT_EQ(way, (std::vector<std::uint64_t>{12288, 4096, 8192}));
  queues->release(slot);
}

TEST(ThreadedQueues, TellsAFailureToWhoeverWaitsForThatTransferAndNobodyElse) {
  std::atomic<int> calls{0};
  const auto queues = queues_over([&](Way, Bytes bytes) {
    if (++calls == 2) throw IoError("pwrite", "the tier", bytes, ENOSPC);
  });
  PageBuffer memory(4_KiB, 1);
  const Slot slot = queues->reserve(4_KiB);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(queues->submit(PageOut{.from = memory.bytes(), .slot = slot}));
  queues->wait(tickets[2]);
  queues->wait(tickets[0]);
  EXPECT_THROW(queues->wait(tickets[1]), IoError);
  queues->release(slot);
}

TEST(ThreadedQueues, ReadsNothingWhereThePageOutBeforeFailed) {
  const auto queues = queues_over([](Way way, Bytes bytes) {
    if (way == Way::kOut) throw IoError("pwrite", "the tier", bytes, ENOSPC);
  });
  PageBuffer from(4_KiB, 1);
  PageBuffer to(4_KiB, 2);
  const Slot slot = queues->reserve(4_KiB);
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  const Ticket in = queues->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  EXPECT_THROW(queues->wait(in), IoError);
  EXPECT_THROW(queues->wait(out), IoError);
  EXPECT_TRUE(to.holds(2));
  queues->release(slot);
}

TEST(ThreadedQueues, AFenceTellsOrderAndNoFailure) {
  const auto queues = queues_over([](Way, Bytes bytes) { throw IoError("pwrite", "the tier", bytes, ENOSPC); });
  PageBuffer from(4_KiB, 1);
  const Slot slot = queues->reserve(4_KiB);
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  queues->host_wait(out);
  EXPECT_TRUE(queues->is_done(out));
  EXPECT_THROW(queues->wait(out), IoError);
  queues->release(slot);
}

TEST(ThreadedQueues, ReadsNothingAfterAFailedPageOutThatWasWaitedForMeanwhile) {
  std::atomic<bool> is_held{true};
  const auto queues = queues_over([&](Way way, Bytes bytes) {
    if (way == Way::kOut) throw IoError("pwrite", "the tier", bytes, ENOSPC);
    while (is_held) std::this_thread::yield();
  });
  PageBuffer from(4_KiB, 1);
  PageBuffer to(4_KiB, 2), other(4_KiB, 3);
  const Slot slot = queues->reserve(4_KiB);
  const Ticket first = queues->submit(PageIn{.slot = slot, .to = {other.bytes()}});  // the next waits for it
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  const Ticket in = queues->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  EXPECT_THROW(queues->wait(out), IoError);
  is_held = false;
  queues->wait(first);
  EXPECT_THROW(queues->wait(in), IoError);
  EXPECT_TRUE(to.holds(2));
  const Ticket later = queues->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  EXPECT_NO_THROW(queues->wait(later)) << "the failure was known when it was submitted";
  queues->release(slot);
}

TEST(ThreadedQueues, ReadsNothingAfterAFailedPageOutBeforeTheOneThatItWaitsFor) {
  std::atomic<int> written{0};
  const auto queues = queues_over([&](Way way, Bytes bytes) {
    if (way == Way::kOut && ++written == 1) throw IoError("pwrite", "the tier", bytes, ENOSPC);
  });
  PageBuffer from(4_KiB, 1);
  PageBuffer to(4_KiB, 2);
  const Slot slot = queues->reserve(4_KiB);
  const Ticket failed = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  queues->wait(out);
  const Ticket in = queues->submit(PageIn{.after = out, .slot = slot, .to = {to.bytes()}});
  EXPECT_THROW(queues->wait(in), IoError);
  EXPECT_THROW(queues->wait(failed), IoError);
  EXPECT_TRUE(to.holds(2));
  queues->release(slot);
}

TEST(ThreadedQueues, ReadsBehindAPageInThatFailed) {
  std::atomic<int> reads{0};
  const auto queues = queues_over([&](Way way, Bytes bytes) {
    if (way == Way::kIn && ++reads == 1) throw IoError("pread", "the tier", bytes, EIO);
  });
  PageBuffer from(4_KiB, 1), failing(4_KiB, 2), to(4_KiB, 3);
  const Slot slot = queues->reserve(4_KiB);
  queues->wait(queues->submit(PageOut{.from = from.bytes(), .slot = slot}));
  const Ticket failed = queues->submit(PageIn{.slot = slot, .to = {failing.bytes()}});
  queues->host_wait(failed);
  const Ticket in = queues->submit(PageIn{.after = failed, .slot = slot, .to = {to.bytes()}});
  EXPECT_NO_THROW(queues->wait(in));
  EXPECT_TRUE(to.holds(1));
  EXPECT_THROW(queues->wait(failed), IoError);
  queues->release(slot);
}

// Threads without work look out for a while, and sleep then.
TEST(ThreadedQueues, DoWhatComesHoweverLongThereWasNothing) {
  const auto queues = queues_over([](Way, Bytes) {});
  PageBuffer memory(4_KiB, 1);
  const Slot slot = queues->reserve(4_KiB);
  queues->wait(queues->submit(PageOut{.from = memory.bytes(), .slot = slot}));
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    const Ticket ticket = random() % 2 == 0 ? queues->submit(PageOut{.from = memory.bytes(), .slot = slot})
                                            : queues->submit(PageIn{.slot = slot, .to = {memory.bytes()}});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // Who waits would do the work.
    while (!queues->is_done(ticket) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ASSERT_TRUE(queues->is_done(ticket)) << i;
  }
  queues->release(slot);
}

TEST(ThreadedQueues, CancelsWhatHasNotBegun) {
  std::atomic<bool> go{false};
  std::atomic<int> calls{0};
  const auto queues = queues_over([&](Way, Bytes) {
    ++calls;
    while (!go) std::this_thread::yield();
  });
  PageBuffer memory(4_KiB, 1);
  const Slot slot = queues->reserve(4_KiB);
  const Ticket first = queues->submit(PageOut{.from = memory.bytes(), .slot = slot});
  const Ticket second = queues->submit(PageOut{.from = memory.bytes(), .slot = slot});
  const Ticket third = queues->submit(PageOut{.from = memory.bytes(), .slot = slot});
  while (calls == 0) std::this_thread::yield();
  EXPECT_TRUE(queues->cancel(second));
  go = true;
  EXPECT_FALSE(queues->cancel(first));
  queues->wait(third);
  EXPECT_EQ(calls, 2);
  queues->release(slot);
}

TEST(ThreadedQueues, IsNoFasterThanItsLink) {
  const auto queues = make_threaded_queues(make_ram_tier(), {.out = 40_MiB, .in = 10_MiB});
  EXPECT_EQ(queues->name(), "RAM at 40.0 MiB/s out, 10.0 MiB/s in");
  PageBuffer memory(1_MiB, 1);
  const Slot slot = queues->reserve(1_MiB);
  const double begin = seconds_now();
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(queues->submit(PageOut{.from = memory.bytes(), .slot = slot}));
  for (const Ticket ticket : tickets) queues->wait(ticket);
  EXPECT_GE(seconds_now() - begin, 0.1);
  const double middle = seconds_now();
  queues->wait(queues->submit(PageIn{.slot = slot, .to = {memory.bytes()}}));
  EXPECT_GE(seconds_now() - middle, 0.1);
  queues->release(slot);
}

TEST(ThreadedQueues, FinishesWhatIsUnderWayBeforeAFork) {
  const auto queues = queues_over([](Way, Bytes) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  PageBuffer from(64_KiB, 3);
  const Slot slot = queues->reserve(64_KiB);
  const Ticket out = queues->submit(PageOut{.from = from.bytes(), .slot = slot});
  queues->before_fork();
  const auto look = [&] {
    EXPECT_TRUE(queues->is_done(out));
    PageBuffer to(64_KiB);
    queues->wait(queues->submit(PageIn{.slot = slot, .to = {to.bytes()}}));
    EXPECT_TRUE(to.holds(3));
    queues->wait(out);
  };
  ChildProcess child([&] {
    queues->after_fork(true);
    look();
  });
  queues->after_fork(false);
  look();
  child.join();
  queues->release(slot);
}

// Slots are reserved and released while transfers of others are under way, each of which takes a random time.
TEST(ThreadedQueues, KeepsEverySlotAsWrittenWhileTransfersOverlap) {
  std::mt19937 delays[2] = {std::mt19937(1), std::mt19937(2)};
  const auto queues = queues_over([&](Way way, Bytes) {
    std::this_thread::sleep_for(std::chrono::microseconds(delays[static_cast<std::size_t>(way)]() % 200));
  });
  struct Stored {
    std::unique_ptr<PageBuffer> memory;
    Slot slot;
    Ticket out;
    std::uint64_t seed;
  };
  std::mt19937 random(7);
  std::vector<Stored> live;
  for (std::uint64_t step = 0; step < 600; ++step) {
    if (live.size() < 10 || random() % 2 == 0) {
      const Bytes size(kPage.count() * (1 + random() % 8));
      Stored one{std::make_unique<PageBuffer>(size, step), queues->reserve(size), {}, step};
      one.out = queues->submit(PageOut{.from = one.memory->bytes(), .slot = one.slot});
      live.push_back(std::move(one));
    } else {
      std::swap(live[random() % live.size()], live.back());
      PageBuffer to(live.back().slot.bytes);
      queues->wait(queues->submit(PageIn{.after = live.back().out, .slot = live.back().slot, .to = {to.bytes()}}));
      ASSERT_TRUE(to.holds(live.back().seed)) << "step " << step;
      queues->release(live.back().slot);
      live.pop_back();
    }
  }
  for (const Stored& one : live) {
    queues->cancel(one.out);
    queues->release(one.slot);
  }
}

}  // namespace
}  // namespace tensorpager::transfer
