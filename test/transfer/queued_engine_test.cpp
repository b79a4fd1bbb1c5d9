#include "tensorpager/transfer/queued_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "child_process.h"
#include "page_buffer.h"
#include "tensorpager/base/clock.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

enum class Way { kOut, kIn };

/// The RAM tier, with a guest that runs before each transfer, on the thread that makes it; what it throws, the transfer
/// throws.
class GuestEngine final : public Engine {
 public:
  explicit GuestEngine(std::function<void(Way, Bytes)> guest) : guest_(std::move(guest)) {}

  Slot reserve(Bytes bytes) override { return ram_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { ram_->release(slot); }
  Ticket submit_page_out(std::span<const std::byte> from, const Slot& slot, Bytes at) override {
    guest_(Way::kOut, Bytes(from.size()));
    return ram_->submit_page_out(from, slot, at);
  }
  Ticket submit_page_in(const Slot& slot, Bytes at, std::span<std::byte> to) override {
    guest_(Way::kIn, Bytes(to.size()));
    return ram_->submit_page_in(slot, at, to);
  }
  void wait(Ticket ticket) override { ram_->wait(ticket); }
  bool may_fail_late() const override { return true; }
  void after_fork(bool in_child) override { ram_->after_fork(in_child); }
  Bytes reserved() const override { return ram_->reserved(); }
  std::string name() const override { return "guest"; }

 private:
  std::unique_ptr<Engine> ram_ = make_ram_engine();
  std::function<void(Way, Bytes)> guest_;
};

std::unique_ptr<Engine> queued(std::function<void(Way, Bytes)> guest) {
  return make_queued_engine(std::make_unique<GuestEngine>(std::move(guest)));
}

TEST(QueuedEngine, ReturnsBeforeTheTransferIsDone) {
  std::atomic<bool> go{false};
  const auto engine = queued([&](Way, Bytes) {
    while (!go) std::this_thread::yield();
  });
  PageBuffer from(64_KiB, 1);
  PageBuffer to(64_KiB);
  const Slot slot = engine->reserve(64_KiB);
  const Ticket out = engine->submit_page_out(from.bytes(), slot, 0_B);
  const Ticket in = engine->submit_page_in_after(out, slot, 0_B, to.bytes());
  EXPECT_FALSE(engine->is_done(out));
  EXPECT_FALSE(engine->is_done(in));
  go = true;
  engine->wait(in);
  EXPECT_TRUE(to.holds(1));
  engine->wait(out);
  engine->release(slot);
}

TEST(QueuedEngine, KeepsTheOrderOfEachWayAndLetsThemPassEachOther) {
  std::vector<std::uint64_t> order[2];
  std::atomic<bool> go{false};
  const auto engine = queued([&](Way way, Bytes bytes) {
    while (way == Way::kOut && !go) std::this_thread::yield();
    order[static_cast<std::size_t>(way)].push_back(bytes.count());
  });
  PageBuffer memory(64_KiB, 1);
  const Slot slot = engine->reserve(64_KiB);
  std::vector<Ticket> out, in;
  for (const Bytes bytes : {12_KiB, 4_KiB, 8_KiB}) {
    out.push_back(engine->submit_page_out(memory.part(0_B, bytes), slot, 0_B));
    in.push_back(engine->submit_page_in(slot, 32_KiB, memory.part(32_KiB, bytes)));
  }
  for (const Ticket ticket : in) engine->wait(ticket);
  EXPECT_FALSE(engine->is_done(out.front()));
  go = true;
  for (const Ticket ticket : out) engine->wait(ticket);
  for (const auto& way : order) EXPECT_EQ(way, (std::vector<std::uint64_t>{12288, 4096, 8192}));
  engine->release(slot);
}

TEST(QueuedEngine, TellsAFailureToWhoeverWaitsForThatTransferAndNobodyElse) {
  std::atomic<int> calls{0};
  const auto engine = queued([&](Way, Bytes bytes) {
    if (++calls == 2) throw IoError("pwrite", "the tier", bytes, ENOSPC);
  });
  PageBuffer memory(4_KiB, 1);
  const Slot slot = engine->reserve(4_KiB);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(engine->submit_page_out(memory.bytes(), slot, 0_B));
  engine->wait(tickets[2]);
  engine->wait(tickets[0]);
  EXPECT_THROW(engine->wait(tickets[1]), IoError);
  engine->release(slot);
}

TEST(QueuedEngine, ReadsNothingWhereThePageOutBeforeFailed) {
  const auto engine = queued([](Way way, Bytes bytes) {
    if (way == Way::kOut) throw IoError("pwrite", "the tier", bytes, ENOSPC);
  });
  PageBuffer from(4_KiB, 1);
  PageBuffer to(4_KiB, 2);
  const Slot slot = engine->reserve(4_KiB);
  const Ticket out = engine->submit_page_out(from.bytes(), slot, 0_B);
  const Ticket in = engine->submit_page_in_after(out, slot, 0_B, to.bytes());
  EXPECT_THROW(engine->wait(in), IoError);
  EXPECT_THROW(engine->wait(out), IoError);
  EXPECT_TRUE(to.holds(2));
  engine->release(slot);
}

TEST(QueuedEngine, CancelsWhatHasNotBegun) {
  std::atomic<bool> go{false};
  std::atomic<int> calls{0};
  const auto engine = queued([&](Way, Bytes) {
    ++calls;
    while (!go) std::this_thread::yield();
  });
  PageBuffer memory(4_KiB, 1);
  const Slot slot = engine->reserve(4_KiB);
  const Ticket first = engine->submit_page_out(memory.bytes(), slot, 0_B);
  const Ticket second = engine->submit_page_out(memory.bytes(), slot, 0_B);
  const Ticket third = engine->submit_page_out(memory.bytes(), slot, 0_B);
  while (calls == 0) std::this_thread::yield();
  EXPECT_TRUE(engine->cancel(second));
  go = true;
  EXPECT_FALSE(engine->cancel(first));
  engine->wait(third);
  EXPECT_EQ(calls, 2);
  engine->release(slot);
}

TEST(QueuedEngine, IsNoFasterThanItsLink) {
  const auto engine = make_queued_engine(make_ram_engine(), {.out = 40_MiB, .in = 10_MiB});
  EXPECT_EQ(engine->name(), "RAM at 40.0 MiB/s out, 10.0 MiB/s in");
  PageBuffer memory(1_MiB, 1);
  const Slot slot = engine->reserve(1_MiB);
  const double begin = seconds_now();
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(engine->submit_page_out(memory.bytes(), slot, 0_B));
  for (const Ticket ticket : tickets) engine->wait(ticket);
  EXPECT_GE(seconds_now() - begin, 0.1);
  const double middle = seconds_now();
  engine->wait(engine->submit_page_in(slot, 0_B, memory.bytes()));
  EXPECT_GE(seconds_now() - middle, 0.1);
  engine->release(slot);
}

TEST(QueuedEngine, FinishesWhatIsUnderWayBeforeAFork) {
  const auto engine = queued([](Way, Bytes) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  PageBuffer from(64_KiB, 3);
  const Slot slot = engine->reserve(64_KiB);
  const Ticket out = engine->submit_page_out(from.bytes(), slot, 0_B);
  engine->before_fork();
  const auto look = [&] {
    EXPECT_TRUE(engine->is_done(out));
    PageBuffer to(64_KiB);
    engine->wait(engine->submit_page_in(slot, 0_B, to.bytes()));
    EXPECT_TRUE(to.holds(3));
    engine->wait(out);
  };
  ChildProcess child([&] {
    engine->after_fork(true);
    look();
  });
  engine->after_fork(false);
  look();
  child.join();
  engine->release(slot);
}

// Slots are reserved and released while transfers of others are under way, each of which takes a random time.
TEST(QueuedEngine, KeepsEverySlotAsWrittenWhileTransfersOverlap) {
  std::mt19937 delays[2] = {std::mt19937(1), std::mt19937(2)};
  const auto engine = queued([&](Way way, Bytes) {
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
      Stored one{std::make_unique<PageBuffer>(size, step), engine->reserve(size), {}, step};
      one.out = engine->submit_page_out(one.memory->bytes(), one.slot, 0_B);
      live.push_back(std::move(one));
    } else {
      std::swap(live[random() % live.size()], live.back());
      PageBuffer to(live.back().slot.bytes);
      engine->wait(engine->submit_page_in_after(live.back().out, live.back().slot, 0_B, to.bytes()));
      ASSERT_TRUE(to.holds(live.back().seed)) << "step " << step;
      engine->release(live.back().slot);
      live.pop_back();
    }
  }
  for (const Stored& one : live) {
    engine->cancel(one.out);
    engine->release(one.slot);
  }
}

}  // namespace
}  // namespace tensorpager::transfer
