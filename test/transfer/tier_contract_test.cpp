// What every tier must do, and every tier behind queues. To add one, add a line at the end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "child_process.h"
#include "page_buffer.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/transfer/queues.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

/// A tier whose calls go through queues.
class ThroughQueues final : public Tier {
 public:
  explicit ThroughQueues(std::unique_ptr<Queues> queues) : queues_(std::move(queues)) {}

  Slot reserve(Bytes bytes) override { return queues_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { queues_->release(slot); }
  void write(std::span<const std::byte> from, const Slot& slot, Bytes at) override {
    queues_->wait(queues_->submit(PageOut{.from = from, .slot = slot, .at = at}));
  }
  void read(const Slot& slot, Bytes at, std::span<std::byte> to) override {
    queues_->wait(queues_->submit(PageIn{.slot = slot, .at = at, .to = {to}}));
  }
  bool may_fail_late() const override { return queues_->may_fail_late(); }
  /// Unlike other tiers, queues must be told of a fork before.
  void before_fork() {
    process_ = ::getpid();
    queues_->before_fork();
  }
  void after_fork() override { queues_->after_fork(::getpid() != process_); }
  Bytes reserved() const override { return queues_->reserved(); }
  std::string name() const override { return queues_->name(); }

 private:
  std::unique_ptr<Queues> queues_;
  pid_t process_ = 0;
};

struct TierCase {
  const char* name;
  std::function<std::unique_ptr<Tier>()> make;
};

struct Stored {
  Slot slot;
  std::uint64_t seed;
};

class TierContract : public testing::TestWithParam<TierCase> {
 protected:
  void TearDown() override { EXPECT_EQ(tier_->reserved(), 0_B) << "slots were left behind"; }

  void store_in(const Slot& slot, std::uint64_t seed) {
    PageBuffer from(slot.bytes, seed);
    tier_->write(from.bytes(), slot, 0_B);
  }
  Stored store(Bytes bytes, std::uint64_t seed) {
    const Stored stored{.slot = tier_->reserve(bytes), .seed = seed};
    store_in(stored.slot, seed);
    return stored;
  }
  bool comes_back(const Stored& stored) {
    PageBuffer to(stored.slot.bytes);
    tier_->read(stored.slot, 0_B, to.bytes());
    return to.holds(stored.seed);
  }

  void before_fork() {
    if (auto* const through = dynamic_cast<ThroughQueues*>(tier_.get())) through->before_fork();
  }

  std::unique_ptr<Tier> tier_ = GetParam().make();
};

TEST_P(TierContract, BytesComeBackExactlyAnyNumberOfTimes) {
  for (const Bytes size : {4_KiB, 12_KiB, 1_MiB, 33_MiB}) {
    const Stored stored = store(size, size.count());
    EXPECT_TRUE(comes_back(stored));
    EXPECT_TRUE(comes_back(stored));
    tier_->release(stored.slot);
  }
}

TEST_P(TierContract, ASlotIsWrittenAndReadInParts) {
  const Slot slot = tier_->reserve(64_KiB);
  PageBuffer from(64_KiB, 7);
  for (const auto& [at, size] : {std::pair(32_KiB, 32_KiB), std::pair(0_B, 4_KiB), std::pair(4_KiB, 28_KiB)}) {
    tier_->write(from.part(at, size), slot, at);
  }
  PageBuffer to(64_KiB);
  for (const auto& [at, size] : {std::pair(0_B, 20_KiB), std::pair(20_KiB, 44_KiB)}) {
    tier_->read(slot, at, to.part(at, size));
  }
  EXPECT_TRUE(to.holds(7));
  tier_->release(slot);
}

TEST_P(TierContract, AReadOfAPartWritesNothingElse) {
  const Stored stored = store(16_KiB, 7);
  PageBuffer to(16_KiB, 8);
  PageBuffer original(16_KiB, 8);
  tier_->read(stored.slot, 4_KiB, to.part(4_KiB, 4_KiB));
  EXPECT_TRUE(std::ranges::equal(to.part(0_B, 4_KiB), original.part(0_B, 4_KiB)));
  EXPECT_FALSE(std::ranges::equal(to.part(4_KiB, 4_KiB), original.part(4_KiB, 4_KiB)));
  EXPECT_TRUE(std::ranges::equal(to.part(8_KiB, 8_KiB), original.part(8_KiB, 8_KiB)));
  tier_->release(stored.slot);
}

TEST_P(TierContract, ASlotIsWrittenAgain) {
  Stored stored = store(64_KiB, 1);
  stored.seed = 2;
  store_in(stored.slot, stored.seed);
  EXPECT_TRUE(comes_back(stored));
  tier_->release(stored.slot);
}

TEST_P(TierContract, ReleasedRoomIsUsedAgain) {
  const Slot first = tier_->reserve(1_MiB);
  const Slot second = tier_->reserve(1_MiB);
  tier_->release(first);
  const Slot third = tier_->reserve(1_MiB);
  EXPECT_EQ(third.offset, first.offset);
  tier_->release(second);
  tier_->release(third);
}

TEST_P(TierContract, ReservedCountsTheBytesInSlots) {
  EXPECT_EQ(tier_->reserved(), 0_B);
  const Slot first = tier_->reserve(4_KiB);
  const Slot second = tier_->reserve(1_MiB);
  EXPECT_EQ(first.bytes, 4_KiB);
  EXPECT_EQ(tier_->reserved(), 1_MiB + 4_KiB);
  tier_->release(first);
  EXPECT_EQ(tier_->reserved(), 1_MiB);
  tier_->release(second);
}

TEST_P(TierContract, AThousandRandomStepsKeepEverySlotAsWritten) {
  constexpr unsigned kSeed = 20260;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<Stored> live;
  Bytes expected;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    const std::size_t choice = live.empty() ? 0 : below(live.size() < 40 ? 5 : 4);
    if (live.empty() || choice == 4 || (choice == 0 && live.size() < 40)) {
      live.push_back(store(Bytes((1 + below(64)) * kPage.count()), step));
      expected += live.back().slot.bytes;
      continue;
    }
    std::swap(live[below(live.size())], live.back());
    ASSERT_TRUE(comes_back(live.back())) << "step " << step;
    if (choice == 1) {
      live.back().seed = step;
      store_in(live.back().slot, step);
    } else if (choice == 2) {
      expected -= live.back().slot.bytes;
      tier_->release(live.back().slot);
      live.pop_back();
    }
    ASSERT_EQ(tier_->reserved(), expected) << "step " << step;
  }
  EXPECT_GT(live.size(), 2u);
  for (const Stored& stored : live) {
    EXPECT_TRUE(comes_back(stored));
    tier_->release(stored.slot);
  }
}

// Parent and child each release half of what was stored before the fork, then write more than that in new slots at the
// same time. If either wrote over room that it released, the other would find its own half changed.
TEST_P(TierContract, SlotsOfBeforeAForkStayReadableInBothProcessesWhateverBothWrite) {
  std::vector<Stored> before;
  for (std::uint64_t i = 0; i < 40; ++i) before.push_back(store(Bytes((1 + i % 7) * kPage.count()), i));
  MeetingPoint point;
  before_fork();

  const auto live_on = [&](Side side) {
    tier_->after_fork();
    std::vector<Stored> kept;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i % 2 == static_cast<std::size_t>(side)) {
        kept.push_back(before[i]);
      } else {
        tier_->release(before[i].slot);
      }
    }
    point.meet(side);
    const std::uint64_t first_seed = side == Side::kChild ? 1000 : 2000;
    for (std::uint64_t i = 0; i < 100; ++i) kept.push_back(store(Bytes((1 + i % 7) * kPage.count()), first_seed + i));
    point.meet(side);
    for (const Stored& stored : kept) {
      EXPECT_TRUE(comes_back(stored)) << "seed " << stored.seed;
      tier_->release(stored.slot);
    }
    EXPECT_EQ(tier_->reserved(), 0_B);
  };

  ChildProcess child([&] { live_on(Side::kChild); });
  live_on(Side::kParent);
  child.join();
}

TEST_P(TierContract, ASlotOutlivesAChainOfForks) {
  const Stored first = store(1_MiB, 1);
  before_fork();
  ChildProcess child([&] {
    tier_->after_fork();
    const Stored second = store(1_MiB, 2);
    before_fork();
    ChildProcess grandchild([&] {
      tier_->after_fork();
      const Stored third = store(1_MiB, 3);
      for (const Stored& stored : {first, second, third}) EXPECT_TRUE(comes_back(stored)) << "seed " << stored.seed;
    });
    tier_->after_fork();
    tier_->release(first.slot);
    const Stored fourth = store(1_MiB, 4);
    grandchild.join();
    EXPECT_TRUE(comes_back(second));
    EXPECT_TRUE(comes_back(fourth));
  });
  tier_->after_fork();
  const Stored fifth = store(1_MiB, 5);
  child.join();
  EXPECT_TRUE(comes_back(first));
  EXPECT_TRUE(comes_back(fifth));
  tier_->release(first.slot);
  tier_->release(fifth.slot);
}

/// Queues are called from one thread at a time.
class TierThreadsContract : public TierContract {};

// Slots that are written and read on two threads, while a third reserves and releases others.
TEST_P(TierThreadsContract, CopiesRunBesideReservesAndReleases) {
  constexpr std::uint64_t kRounds = 200;
  Stored written{.slot = tier_->reserve(64_KiB), .seed = 0};
  const Stored read = store(64_KiB, 1000);
  std::thread writer([&] {
    for (written.seed = 1; written.seed < kRounds; ++written.seed) store_in(written.slot, written.seed);
  });
  int wrong = 0;
  std::thread reader([&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) wrong += comes_back(read) ? 0 : 1;
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const Slot slots[] = {tier_->reserve(64_KiB), tier_->reserve(4_KiB)};
    for (const Slot& slot : slots) tier_->release(slot);
  }
  writer.join();
  reader.join();
  --written.seed;
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(comes_back(written));
  tier_->release(written.slot);
  tier_->release(read.slot);
}

std::unique_ptr<Tier> temporary_file() { return make_file_tier(testing::TempDir()); }
std::unique_ptr<Tier> through(std::unique_ptr<Queues> queues) {
  return std::make_unique<ThroughQueues>(std::move(queues));
}

const TierCase kTiers[] = {{"File", [] { return temporary_file(); }},
                           {"Ram", [] { return make_ram_tier(); }},
                           {"FileAtOnce", [] { return through(make_synchronous_queues(temporary_file())); }},
                           {"RamAtOnce", [] { return through(make_synchronous_queues(make_ram_tier())); }},
                           {"FileOnThreads", [] { return through(make_threaded_queues(temporary_file())); }},
                           {"RamOnThreads", [] { return through(make_threaded_queues(make_ram_tier())); }}};
constexpr auto name_of_tier = [](const auto& instance) { return instance.param.name; };

INSTANTIATE_TEST_SUITE_P(Tiers, TierContract, testing::ValuesIn(kTiers), name_of_tier);
INSTANTIATE_TEST_SUITE_P(Tiers, TierThreadsContract, testing::ValuesIn(std::span(kTiers).first(2)), name_of_tier);

}  // namespace
}  // namespace tensorpager::transfer
