// Threads under a budget that holds what they pin at one time and little more. Each looks at its own blocks, and at one
// that all of them read; whatever one brings in, another's block must leave.
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "pager_fixture.h"

namespace tensorpager::pager {
namespace {

using namespace base;

/// The RAM tier, with a guest that runs after each copy out and before the page-out goes on.
class DelayingTier final : public transfer::ForwardingTier {
 public:
  explicit DelayingTier(std::function<void()> guest) : guest_(std::move(guest)) {}

  void write(std::span<const std::byte> from, const transfer::Slot& slot, Bytes at) override {
    ForwardingTier::write(from, slot, at);
    guest_();
  }
  bool may_fail_late() const override { return true; }

 private:
  std::function<void()> guest_;
};

class RaceTest : public PagerTest {
 protected:
  static constexpr std::uint64_t kThreads = 3;
  static constexpr std::uint64_t kOwn =
      12;  // blocks of a thread: with the shared one and a temporary, more than there is room for
  static constexpr std::uint64_t kShared = 999;
  // Two arguments and a temporary for each thread, the shared block, and one block for a direct access.
  static constexpr std::uint64_t kRoom = 3 * kThreads + 2;

  /// Runs ops on a thread of its own: two of its blocks and the shared one, and a temporary in each.
  void run_ops(std::uint64_t thread, int count) {
    std::mt19937 random(static_cast<unsigned>(thread));
    Block** own = &blocks_[thread * kOwn];
    std::uint64_t seeds[kOwn];
    for (std::uint64_t i = 0; i < kOwn; ++i) seeds[i] = thread * kOwn + i;
    for (int step = 0; step < count; ++step) {
      const std::size_t read = random() % kOwn;
      const std::size_t written = random() % kOwn;
      PinSet op(pager_, Temporaries::kKeep);
      op.see(*own[read], Access::kRead);
      op.see(*own[written], Access::kWrite);
      op.see(*shared_, Access::kRead);
      op.admit();
      wrong_ += is_filled(*own[read], seeds[read]) ? 0 : 1;
      wrong_ += is_filled(*own[written], seeds[written]) ? 0 : 1;
      wrong_ += is_filled(*shared_, kShared) ? 0 : 1;
      seeds[written] = random();
      fill(*own[written], seeds[written]);
      Block& temporary = pager_.storages().create(kBlock);
      fill(temporary, thread);
      wrong_ += is_filled(temporary, thread) ? 0 : 1;
      pager_.storages().destroy(temporary);
      pager_.boundaries().op_begins();
    }
    for (std::size_t i = 0; i < kOwn; ++i) final_seeds_[thread * kOwn + i] = seeds[i];
  }

  void run_threads(int count) {
    for (std::uint64_t i = 0; i < kThreads * kOwn; ++i) make(kBlock, i);
    shared_ = &make(kBlock, kShared);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([this, thread, count] { run_ops(thread, count); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong_, 0);
    for (std::size_t i = 0; i < kThreads * kOwn; ++i) EXPECT_TRUE(holds(*blocks_[i], final_seeds_[i])) << "block " << i;
    EXPECT_GT(counts().page_outs, 100u);
  }

  Block* shared_ = nullptr;
  std::atomic<int> wrong_{0};
  std::uint64_t final_seeds_[kThreads * kOwn] = {};
};

TEST_F(RaceTest, ThreadsKeepTheirBytesUnderASmallBudget) {
  start(room_for(kRoom));
  run_threads(600);
}

TEST_F(RaceTest, TheFuzzerRacesWithOps) {
  pager_.start({.budget = room_for(kRoom), .fuzz = 5, .witness_ops = 0, .curve = true}, ram_queues());
  run_threads(300);
}

TEST_F(RaceTest, TheFuzzerRacesWithOpsAndSlowTransfers) {
  pager_.start({.budget = room_for(kRoom), .fuzz = 6, .witness_ops = 0, .curve = false},
               transfer::make_threaded_queues(std::make_unique<SlowTier>()));
  run_threads(150);
}

// Pages move from one mapping to another while a thread reads the list of them: none may be counted twice.
TEST_F(RaceTest, TheWitnessCountsNoPageTwice) {
  pager_.start({.budget = room_for(kRoom), .fuzz = {}, .witness_ops = 5, .curve = false}, ram_queues());
  run_threads(600);
  EXPECT_GT(counts().witness_peak_bytes, 0u);
  EXPECT_LE(counts().witness_peak_bytes, counts().budget_bytes);
}

#ifdef __SANITIZE_THREAD__
constexpr bool kSeesPageProtection = false;
#else
constexpr bool kSeesPageProtection = true;
#endif

// One more thread has blocks that no op sees: it reads and writes them where they are, at any moment of their page-out.
TEST_F(RaceTest, DirectAccessesAreServedWhileOthersPage) {
  if (!kSeesPageProtection)
    GTEST_SKIP() << "a direct write is ordered before the copy by page protection, which ThreadSanitizer cannot see";
  start(room_for(kRoom));
  std::atomic<bool> stop{false};
  std::atomic<int> passes{0};
  std::thread direct([&] {
    std::vector<Block*> own;
    for (std::uint64_t i = 0; i < 4; ++i) {
      own.push_back(&pager_.storages().create(kBlock));
      fill(*own[i], i);
    }
    for (std::uint64_t pass = 0; !stop; ++pass) {
      for (std::uint64_t i = 0; i < own.size(); ++i) {
        wrong_ += is_filled(*own[i], pass * 4 + i) ? 0 : 1;
        fill(*own[i], (pass + 1) * 4 + i);
      }
      ++passes;
    }
    for (Block* block : own) pager_.storages().destroy(*block);
  });
  run_threads(600);
  stop = true;
  direct.join();
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(passes, 10);
  EXPECT_GT(counts().faults, 10u);
}

// Between the copy and the end of the page-out another thread writes: it must wait until the block is back.
TEST_F(RaceTest, ADirectWriteAfterTheCopyIsNotLost) {
  std::atomic<bool> copied{false};
  std::atomic<bool> written{false};
  const auto guest = [&] {
    copied = true;
    for (int i = 0; i < 50 && !written; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(written) << "written to pages that are on their way out";
  };
  start(1_MiB, transfer::make_synchronous_queues(std::make_unique<DelayingTier>(guest)));
  Block& block = make(kBlock, 1);
  std::thread writer([&] {
    while (!copied) std::this_thread::yield();
    fill(block, 2);
    written = true;
  });
  pager_.page_out_all();
  writer.join();
  EXPECT_TRUE(is_filled(block, 2));
  EXPECT_EQ(counts().faults, 1u);
}

// A block dies on one thread while another, which pinned it, lets go of it: exactly one of them forgets the record.
TEST_F(RaceTest, ABlockDiesWhileItsLastPinEnds) {
  start(kUnlimited);
  std::atomic<Block*> handed{nullptr};
  constexpr int kRounds = 3000;
  std::thread destroyer([&] {
    for (int i = 0; i < kRounds; ++i) {
      Block* block = nullptr;
      while ((block = handed.exchange(nullptr)) == nullptr) std::this_thread::yield();
      pager_.storages().destroy(*block);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    while (handed != nullptr) std::this_thread::yield();
    PinSet op(pager_, Temporaries::kKeep);
    handed = &pager_.storages().create(16_KiB);
  }
  destroyer.join();
  EXPECT_EQ(counts().records, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
