// What every engine must do. To add one, add a line at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "child_process.h"
#include "page_buffer.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::transfer {
namespace {

using namespace base;

struct EngineCase {
  const char* name;
  std::function<std::unique_ptr<Engine>()> make;
};

struct Stored {
  Slot slot;
  std::uint64_t seed;
};

class EngineContract : public testing::TestWithParam<EngineCase> {
 protected:
  void TearDown() override { EXPECT_EQ(engine_->reserved(), 0_B) << "slots were left behind"; }

  void page_out(const Slot& slot, std::uint64_t seed) {
    PageBuffer from(slot.bytes, seed);
    engine_->wait(engine_->submit_page_out(from.bytes(), slot, 0_B));
  }
  Stored store(Bytes bytes, std::uint64_t seed) {
    const Stored stored{.slot = engine_->reserve(bytes), .seed = seed};
    page_out(stored.slot, seed);
    return stored;
  }
  bool comes_back(const Stored& stored) {
    PageBuffer to(stored.slot.bytes);
    engine_->wait(engine_->submit_page_in(stored.slot, 0_B, to.bytes()));
    return to.holds(stored.seed);
  }

  std::unique_ptr<Engine> engine_ = GetParam().make();
};

TEST_P(EngineContract, BytesComeBackExactlyAnyNumberOfTimes) {
  for (const Bytes size : {4_KiB, 12_KiB, 1_MiB, 33_MiB}) {
    const Stored stored = store(size, size.count());
    EXPECT_TRUE(comes_back(stored));
    EXPECT_TRUE(comes_back(stored));
    engine_->release(stored.slot);
  }
}

TEST_P(EngineContract, ASlotIsWrittenAndReadInParts) {
  const Slot slot = engine_->reserve(64_KiB);
  PageBuffer from(64_KiB, 7);
  for (const auto& [at, size] : {std::pair(32_KiB, 32_KiB), std::pair(0_B, 4_KiB), std::pair(4_KiB, 28_KiB)}) {
    engine_->wait(engine_->submit_page_out(from.part(at, size), slot, at));
  }
  PageBuffer to(64_KiB);
  for (const auto& [at, size] : {std::pair(0_B, 20_KiB), std::pair(20_KiB, 44_KiB)}) {
    engine_->wait(engine_->submit_page_in(slot, at, to.part(at, size)));
  }
  EXPECT_TRUE(to.holds(7));
  engine_->release(slot);
}

TEST_P(EngineContract, APageInOfAPartWritesNothingElse) {
  const Stored stored = store(16_KiB, 7);
  PageBuffer to(16_KiB, 8);
  PageBuffer original(16_KiB, 8);
  engine_->wait(engine_->submit_page_in(stored.slot, 4_KiB, to.part(4_KiB, 4_KiB)));
  EXPECT_TRUE(std::ranges::equal(to.part(0_B, 4_KiB), original.part(0_B, 4_KiB)));
  EXPECT_FALSE(std::ranges::equal(to.part(4_KiB, 4_KiB), original.part(4_KiB, 4_KiB)));
  EXPECT_TRUE(std::ranges::equal(to.part(8_KiB, 8_KiB), original.part(8_KiB, 8_KiB)));
  engine_->release(stored.slot);
}

TEST_P(EngineContract, ASlotTakesANewPageOut) {
  Stored stored = store(64_KiB, 1);
  stored.seed = 2;
  page_out(stored.slot, stored.seed);
  EXPECT_TRUE(comes_back(stored));
  engine_->release(stored.slot);
}

TEST_P(EngineContract, TransfersInFlightTogetherKeepApart) {
  PageBuffer first(1_MiB, 1);
  PageBuffer second(1_MiB, 2);
  const Slot slots[] = {engine_->reserve(1_MiB), engine_->reserve(1_MiB)};
  const Ticket out[] = {engine_->submit_page_out(first.bytes(), slots[0], 0_B),
                        engine_->submit_page_out(second.bytes(), slots[1], 0_B)};
  engine_->wait(out[1]);
  engine_->wait(out[0]);
  PageBuffer to[] = {PageBuffer(1_MiB), PageBuffer(1_MiB)};
  const Ticket in[] = {engine_->submit_page_in(slots[0], 0_B, to[0].bytes()),
                       engine_->submit_page_in(slots[1], 0_B, to[1].bytes())};
  engine_->wait(in[1]);
  engine_->wait(in[0]);
  EXPECT_TRUE(to[0].holds(1));
  EXPECT_TRUE(to[1].holds(2));
  for (const Slot& slot : slots) engine_->release(slot);
}

TEST_P(EngineContract, APageInFollowsThePageOutThatItIsSubmittedAfter) {
  PageBuffer from(8_MiB, 5);
  PageBuffer to(8_MiB);
  const Slot slot = engine_->reserve(8_MiB);
  const Ticket out = engine_->submit_page_out(from.bytes(), slot, 0_B);
  const Ticket in = engine_->submit_page_in_after(out, slot, 0_B, to.bytes());
  engine_->wait(in);
  EXPECT_TRUE(to.holds(5));
  EXPECT_TRUE(engine_->is_done(out));
  EXPECT_TRUE(engine_->is_done(in));
  engine_->release(slot);
}

TEST_P(EngineContract, DoesFirstWhatAPageOutIsSubmittedAfter) {
  PageBuffer from(1_MiB, 1);
  const Slot slot = engine_->reserve(1_MiB);
  const auto first = [&] { std::ranges::copy(PageBuffer(1_MiB, 2).bytes(), from.bytes().begin()); };
  engine_->wait(engine_->submit_page_out_after(first, from.bytes(), slot, 0_B));
  EXPECT_TRUE(comes_back({slot, 2}));
  engine_->release(slot);
}

TEST_P(EngineContract, CopiesNothingWhereWhatComesFirstFails) {
  PageBuffer from(1_MiB, 1);
  const Stored stored = store(1_MiB, 9);
  const auto fails = [] { throw base::IoError("mprotect", "a block", 1_MiB, ENOMEM); };
  EXPECT_THROW(engine_->wait(engine_->submit_page_out_after(fails, from.bytes(), stored.slot, 0_B)), base::IoError);
  EXPECT_TRUE(comes_back(stored));
  engine_->release(stored.slot);
}

// Whatever was under way: the memory is the caller's again, and so is the slot.
TEST_P(EngineContract, MayBeToldThatNobodyWantsATransfer) {
  PageBuffer from(4_MiB, 1);
  PageBuffer to(4_MiB);
  const Stored stored = store(4_MiB, 9);
  const Slot slot = engine_->reserve(4_MiB);
  for (int round = 0; round < 20; ++round) {
    const Ticket first = engine_->submit_page_out(from.bytes(), slot, 0_B);
    const Ticket second = engine_->submit_page_out(from.bytes(), slot, 0_B);
    const Ticket in = engine_->submit_page_in(stored.slot, 0_B, to.bytes());
    engine_->cancel(second);
    engine_->cancel(in);
    engine_->cancel(first);
    std::ranges::fill(from.bytes(), std::byte{3});
    std::ranges::fill(to.bytes(), std::byte{3});
  }
  EXPECT_EQ(static_cast<int>(to.bytes().back()), 3);
  EXPECT_TRUE(comes_back(stored));
  engine_->release(slot);
  engine_->release(stored.slot);
}

TEST_P(EngineContract, ReleasedRoomIsUsedAgain) {
  const Slot first = engine_->reserve(1_MiB);
  const Slot second = engine_->reserve(1_MiB);
  engine_->release(first);
  const Slot third = engine_->reserve(1_MiB);
  EXPECT_EQ(third.offset, first.offset);
  engine_->release(second);
  engine_->release(third);
}

TEST_P(EngineContract, ReservedCountsTheBytesInSlots) {
  EXPECT_EQ(engine_->reserved(), 0_B);
  const Slot first = engine_->reserve(4_KiB);
  const Slot second = engine_->reserve(1_MiB);
  EXPECT_EQ(first.bytes, 4_KiB);
  EXPECT_EQ(engine_->reserved(), 1_MiB + 4_KiB);
  engine_->release(first);
  EXPECT_EQ(engine_->reserved(), 1_MiB);
  engine_->release(second);
}

TEST_P(EngineContract, AThousandRandomStepsKeepEverySlotAsWritten) {
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
      page_out(live.back().slot, step);
    } else if (choice == 2) {
      expected -= live.back().slot.bytes;
      engine_->release(live.back().slot);
      live.pop_back();
    }
    ASSERT_EQ(engine_->reserved(), expected) << "step " << step;
  }
  EXPECT_GT(live.size(), 2u);
  for (const Stored& stored : live) {
    EXPECT_TRUE(comes_back(stored));
    engine_->release(stored.slot);
  }
}

// Parent and child each release half of what was stored before the fork, then write more than that in new slots at the
// same time. If either wrote over room that it released, the other would find its own half changed.
TEST_P(EngineContract, SlotsOfBeforeAForkStayReadableInBothProcessesWhateverBothWrite) {
  std::vector<Stored> before;
  for (std::uint64_t i = 0; i < 40; ++i) before.push_back(store(Bytes((1 + i % 7) * kPage.count()), i));
  MeetingPoint point;
  engine_->before_fork();

  const auto live_on = [&](Side side) {
    engine_->after_fork(side == Side::kChild);
    std::vector<Stored> kept;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i % 2 == static_cast<std::size_t>(side)) {
        kept.push_back(before[i]);
      } else {
        engine_->release(before[i].slot);
      }
    }
    point.meet(side);
    const std::uint64_t first_seed = side == Side::kChild ? 1000 : 2000;
    for (std::uint64_t i = 0; i < 100; ++i) kept.push_back(store(Bytes((1 + i % 7) * kPage.count()), first_seed + i));
    point.meet(side);
    for (const Stored& stored : kept) {
      EXPECT_TRUE(comes_back(stored)) << "seed " << stored.seed;
      engine_->release(stored.slot);
    }
    EXPECT_EQ(engine_->reserved(), 0_B);
  };

  ChildProcess child([&] { live_on(Side::kChild); });
  live_on(Side::kParent);
  child.join();
}

TEST_P(EngineContract, ASlotOutlivesAChainOfForks) {
  const Stored first = store(1_MiB, 1);
  engine_->before_fork();
  ChildProcess child([&] {
    engine_->after_fork(true);
    const Stored second = store(1_MiB, 2);
    engine_->before_fork();
    ChildProcess grandchild([&] {
      engine_->after_fork(true);
      const Stored third = store(1_MiB, 3);
      for (const Stored& stored : {first, second, third}) EXPECT_TRUE(comes_back(stored)) << "seed " << stored.seed;
    });
    engine_->after_fork(false);
    engine_->release(first.slot);
    const Stored fourth = store(1_MiB, 4);
    grandchild.join();
    EXPECT_TRUE(comes_back(second));
    EXPECT_TRUE(comes_back(fourth));
  });
  engine_->after_fork(false);
  const Stored fifth = store(1_MiB, 5);
  child.join();
  EXPECT_TRUE(comes_back(first));
  EXPECT_TRUE(comes_back(fifth));
  engine_->release(first.slot);
  engine_->release(fifth.slot);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, EngineContract,
    testing::Values(EngineCase{"File", [] { return make_file_engine(testing::TempDir()); }},
                    EngineCase{"Ram", [] { return make_ram_engine(); }},
                    EngineCase{"QueuedFile", [] { return make_queued_engine(make_file_engine(testing::TempDir())); }},
                    EngineCase{"QueuedRam", [] { return make_queued_engine(make_ram_engine()); }}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace tensorpager::transfer
