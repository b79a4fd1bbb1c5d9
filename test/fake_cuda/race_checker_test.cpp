// A pager in small: a compute queue, a page-out queue and a page-in queue over two device blocks and two host slots,
// which take turns. What a round pages out, the next one pages in and uses. None of its waits follows from the others;
// a program that lacks one is found under every schedule, whether or not it goes wrong.
//
//   compute    fill X ─┐                          ┌─ use Y   ┌─ overwrite X
//   page-out           └─ X→H ────────────────────┼──────────┤
//   page-in    (last use of Y, last X→H') ─ H'→Y ─┘          └─ (the next round)
#include "tensorpager/fake_cuda/race_checker.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr int kCompute = 0;
constexpr int kOut = 1;
constexpr int kIn = 2;
constexpr std::size_t kBytes = 4096;
constexpr std::uint64_t kRounds = 60;

enum class Mistake {
  kNone,
  kReuseWithoutFence,  // a page-in does not wait for the last use of its place
  kPageOutDoesNotWaitForCompute,
  kFreeBeforePageOutIsRead,  // the place is written again while its page-out reads it
  kPageInDoesNotWaitForTheHostSlot,
  kComputeDoesNotWaitForPageIn,
};

WorldOptions options_for(const std::string& schedule) {
  WorldOptions options{.schedule = schedule, .delay_us = 20};
  options.card.memory = 1 << 20;
  return options;
}

class SmallPager {
 public:
  explicit SmallPager(const std::string& schedule) : world_(options_for(schedule)) {}

  /// The sum of what was used.
  std::uint64_t run(Mistake mistake) {
    Ticket last_use;
    Ticket last_page_out;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      write(x_, round);
      if (mistake != Mistake::kPageOutDoesNotWaitForCompute) queues_.block(kOut, queues_.record(kCompute));
      copy(kOut, x_, host_[round % 2]);
      if (mistake != Mistake::kReuseWithoutFence) queues_.block(kIn, last_use);
      if (mistake != Mistake::kPageInDoesNotWaitForTheHostSlot) queues_.block(kIn, last_page_out);
      copy(kIn, host_[(round - 1) % 2], y_);
      if (mistake != Mistake::kComputeDoesNotWaitForPageIn) queues_.block(kCompute, queues_.record(kIn));
      use(y_);
      last_use = queues_.record(kCompute);
      last_page_out = queues_.record(kOut);
      if (mistake != Mistake::kFreeBeforePageOutIsRead) queues_.block(kCompute, last_page_out);
      write(x_, 0);
    }
    queues_.wait_for_all();
    return sum_;
  }
  std::string report() { return world_.report(); }

 private:
  std::uint64_t* at(void* address) { return static_cast<std::uint64_t*>(world_.view(address)); }
  void write(void* to, std::uint64_t value) {
    const auto kernel = [target = at(to), value] { __atomic_store_n(target, value, __ATOMIC_RELAXED); };
    queues_.enqueue(kCompute, "write", {{to, kBytes, true}}, kernel);
  }
  void copy(int queue, void* from, void* to) {
    const auto kernel = [source = at(from), target = at(to)] {
      __atomic_store_n(target, __atomic_load_n(source, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    };
    queues_.enqueue(queue, "copy", {{from, kBytes, false}, {to, kBytes, true}}, kernel);
  }
  void use(void* from) {
    const auto kernel = [this, source = at(from)] { sum_ += __atomic_load_n(source, __ATOMIC_RELAXED); };
    queues_.enqueue(kCompute, "use", {{from, kBytes, false}}, kernel);
  }

  World world_;
  Queues& queues_ = world_.queues();
  void* x_ = world_.allocate(0, kBytes);
  void* y_ = world_.allocate(0, kBytes);
  void* host_[2] = {world_.allocate_pinned(kBytes), world_.allocate_pinned(kBytes)};  // zeros
  std::uint64_t sum_ = 0;
};

bool has_races(const std::string& report) { return report.find("\"races\": 0,") == std::string::npos; }

class RaceCheckerUnder : public testing::TestWithParam<const char*> {};

TEST_P(RaceCheckerUnder, FindsNothingInAProgramWithItsWaits) {
  SmallPager pager(GetParam());
  EXPECT_EQ(pager.run(Mistake::kNone), kRounds * (kRounds - 1) / 2);
  EXPECT_FALSE(has_races(pager.report())) << pager.report();
}

TEST_P(RaceCheckerUnder, FindsEachMissingWait) {
  for (const Mistake mistake :
       {Mistake::kReuseWithoutFence, Mistake::kPageOutDoesNotWaitForCompute, Mistake::kFreeBeforePageOutIsRead,
        Mistake::kPageInDoesNotWaitForTheHostSlot, Mistake::kComputeDoesNotWaitForPageIn}) {
    SmallPager pager(GetParam());
    pager.run(mistake);
    EXPECT_TRUE(has_races(pager.report())) << "mistake " << static_cast<int>(mistake);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, RaceCheckerUnder, testing::Values("now", "threads", "1", "2", "3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(RaceChecker, NamesTheFirstRaceByQueueOpAndBytes) {
  const char memory[4096] = {};
  RaceChecker races(3);
  races.add_memory(memory, sizeof memory, "device 0");
  races.check(1, "fill", 1, Clock{0, 0, 0}, {{memory + 512, 512, true}});
  races.check(2, "mm", 1, Clock{0, 1, 0}, {{memory + 512, 512, false}});
  EXPECT_EQ(races.races(), 0U) << "queue 2 has waited for the write";
  races.check(0, "add", 1, Clock{0, 1, 0}, {{memory + 600, 8, true}});
  EXPECT_EQ(races.races(), 1U);
  EXPECT_EQ(races.first_race(),
            "add on queue 0 writes device 0 bytes 600 to 608, which queue 2 has read with no wait between");
}

TEST(RaceChecker, CountsARaceOnce) {
  const char memory[512] = {};
  RaceChecker races(3);
  races.add_memory(memory, sizeof memory, "device 0");
  races.check(2, "read", 1, Clock{0, 0, 0}, {{memory, 512, false}});
  races.check(0, "fill", 1, Clock{0, 0, 0}, {{memory, 512, true}});
  races.check(1, "fill", 1, Clock{1, 0, 0}, {{memory, 512, true}});
  EXPECT_EQ(races.races(), 1U) << "the last fill has waited for the one before, whose race it is";
}

TEST(RaceChecker, ReadersDoNotRaceWithEachOther) {
  const char memory[1024] = {};
  RaceChecker races(2);
  races.add_memory(memory, sizeof memory, "pinned");
  races.check(0, "read", 1, Clock{0, 0}, {{memory, 1024, false}});
  races.check(1, "read", 1, Clock{0, 0}, {{memory, 1024, false}});
  EXPECT_EQ(races.races(), 0U);
}

TEST(RaceChecker, ForgetsWhatHappenedToMemoryThatIsNew) {
  const std::vector<char> memory(1 << 20);
  RaceChecker races(2);
  races.add_memory(memory.data(), memory.size(), "device 0");
  races.check(0, "fill", 1, Clock{0, 0}, {{memory.data(), memory.size(), true}});
  races.forget(memory.data() + 512, memory.size() - 1024);
  races.check(1, "fill", 1, Clock{0, 0}, {{memory.data() + 512, memory.size() - 1024, true}});
  EXPECT_EQ(races.races(), 0U);
  races.check(1, "fill", 2, Clock{0, 0}, {{memory.data(), 1, true}});
  races.check(1, "fill", 3, Clock{0, 0}, {{memory.data() + memory.size() - 1, 1, true}});
  EXPECT_EQ(races.races(), 2U) << "the granules beside what was forgotten";
}

TEST(RaceChecker, LooksAtNoMemoryThatItDoesNotKnow) {
  const char memory[1024] = {};
  RaceChecker races(2);
  races.add_memory(memory, sizeof memory, "pinned");
  races.remove_memory(memory);
  races.check(0, "fill", 1, Clock{0, 0}, {{memory, 1024, true}});
  races.check(1, "fill", 1, Clock{0, 0}, {{memory, 1024, true}});
  EXPECT_EQ(races.races(), 0U);
}

}  // namespace
}  // namespace tensorpager::fake_cuda
