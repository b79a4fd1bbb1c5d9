// What transfer threads do for a plan by themselves: page-ins that wait for a page-out go on when its copy is done, and
// no op maps pages for them. The plan's account stays as it was.
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "../transfer/child_process.h"
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;
using Kind = Action::Kind;

/// Says what a test tells it to.
class Script final : public ActionSource {
 public:
  bool begin_op(const plan::OpSignature&, std::span<Block* const>, std::vector<Action>& actions) override {
    actions = std::exchange(at_begin, {});
    return true;
  }
  void end_op(std::vector<Action>& actions) override {
    if (at_end_first) std::exchange(at_end_first, nullptr)();
    actions = std::exchange(at_end, {});
  }
  void created(Block&) override {}
  void died(Block&) noexcept override {}
  std::optional<std::uint64_t> place_of_birth(Bytes, Bytes) override { return std::nullopt; }
  void places_of_births(std::vector<PlannedPlace>&) const override {}
  std::optional<std::uint64_t> place_of(const Block&) const override { return std::nullopt; }
  Bytes planned_space() const override { return {}; }
  std::optional<std::uint64_t> next_use(const Block&) const override { return std::nullopt; }
  std::optional<Bytes> planned_at_begin() const override { return planned; }
  std::optional<Bytes> planned_at_end() const override { return planned; }
  std::uint64_t followed_ops() const override { return 0; }
  std::uint64_t misses() const override { return 0; }

  std::vector<Action> at_begin, at_end;  // of the next op
  std::function<void()> at_end_first;    // with the pager's lock held
  std::optional<Bytes> planned;
};

/// What the tier is told to do.
struct Told {
  std::atomic<bool> fails{false};
  std::atomic<bool> holds{false};  // page-outs that have begun
  std::atomic<int> begun{0};
};

/// The RAM tier, slow to write.
class SlowToWrite final : public transfer::Engine {
 public:
  explicit SlowToWrite(Told& told) : told_(told) {}
  transfer::Slot reserve(Bytes bytes) override { return ram_->reserve(bytes); }
  void release(const transfer::Slot& slot) noexcept override { ram_->release(slot); }
  transfer::Ticket submit_page_out(std::span<const std::byte> from, const transfer::Slot& slot, Bytes at) override {
    ++told_.begun;
    do std::this_thread::sleep_for(std::chrono::milliseconds(5));
    while (told_.holds);
    if (told_.fails) throw IoError("pwrite", "the tier", Bytes(from.size()), ENOSPC);
    return ram_->submit_page_out(from, slot, at);
  }
  transfer::Ticket submit_page_in(const transfer::Slot& slot, Bytes at, std::span<std::byte> to) override {
    return ram_->submit_page_in(slot, at, to);
  }
  void wait(transfer::Ticket ticket) override { ram_->wait(ticket); }
  void after_fork(bool in_child) override { ram_->after_fork(in_child); }
  Bytes reserved() const override { return ram_->reserved(); }
  std::string name() const override { return "slow to write"; }

 private:
  std::unique_ptr<transfer::Engine> ram_ = transfer::make_ram_engine();
  Told& told_;
};

class AdvancingTest : public PagerTest {
 protected:
  void start_following(Bytes budget) {
    start(budget, transfer::make_queued_engine(std::make_unique<SlowToWrite>(told_)));
    pager_.follow(&script_);
  }
  void TearDown() override {
    if (goes_on_.joinable()) goes_on_.join();
    pager_.follow(nullptr);
    PagerTest::TearDown();
  }

  void run_op(Block* written = nullptr) {
    pager_.at_op_boundary();
    PinSet pins(pager_, Temporaries::kKeep);
    if (written != nullptr) pins.see(*written, Access::kWrite);
    pins.follow(plan::name_hash("op"));
    pins.admit();
  }
  /// It has left; the next op awaits that and has it back.
  void leave_and_come_back(Block& block, Kind await) {
    script_.at_end = {{Kind::kPageOut, &block}};
    run_op(&block);
    ASSERT_TRUE(is_gone_in_time(1));
    script_.at_begin = {
        {.kind = await, .block = &block, .number = block.number}, {Kind::kPageIn, &block}, {Kind::kNeed, &block}};
  }
  /// The first is being copied until the tier is told to go on, the second waits for that.
  void take_away(Block& first, Block& second) {
    told_.holds = true;
    take_away(first);
    ASSERT_TRUE(comes_to([&] { return told_.begun == 1; }));
    take_away(second);
  }
  void take_away(Block& block) {
    script_.at_end = {{Kind::kPageOut, &block}};
    run_op(&block);
    ASSERT_TRUE(block.is_absent());
  }
  /// Meanwhile.
  void go_on_soon() {
    goes_on_ = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      told_.holds = false;
    });
  }
  /// No op sees to it.
  bool is_gone_in_time(std::uint64_t page_outs) {
    return comes_to([&] { return counts().page_outs == page_outs; });
  }
  /// Without any op.
  template <typename Condition>
  bool comes_to(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Told told_;
  std::thread goes_on_;
  Script script_;
};

TEST_F(AdvancingTest, PageInsGoOnWhenThePageOutIsDoneThatTheyWaitFor) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  Block& in = make(kBlock, 2);  // `out` leaves for it
  run_op(&out);
  const Statistics before = counts();
  script_.at_end = {
      {Kind::kPageOut, &out}, {.kind = Kind::kAwaitQueued, .block = &out, .number = out.number}, {Kind::kPageIn, &in}};
  run_op(&out);
  EXPECT_TRUE(comes_to([&] { return !in.is_absent(); }));
  EXPECT_TRUE(out.is_absent());
  EXPECT_TRUE(in.is_clean());
  const Statistics after = counts();
  EXPECT_EQ(after.page_outs - before.page_outs, 1u);
  EXPECT_EQ(after.page_ins - before.page_ins, 1u);
  EXPECT_GT(after.handling_beside_seconds, before.handling_beside_seconds);
  EXPECT_EQ(after.page_in_handling_seconds, before.page_in_handling_seconds);
  EXPECT_TRUE(is_filled(in, 2));
}

TEST_F(AdvancingTest, WhatATransferThreadDoesNotGetTheLockForIsDoneWhenItIsReleased) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);  // the copy takes 5 ms
  script_.at_end_first = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  run_op();
  EXPECT_TRUE(is_gone_in_time(1));
}

TEST_F(AdvancingTest, WhatIsNotDroppedBeforeItDiesComesWritable) {
  start_following(room_for(2));
  Block& in = make(kBlock, 2);
  pager_.page_out_all();
  script_.at_begin = {{.kind = Kind::kPageIn, .block = &in, .may_be_dirty = true}, {Kind::kNeed, &in}};
  run_op();
  ASSERT_FALSE(in.is_absent());
  EXPECT_FALSE(in.is_clean());
  EXPECT_EQ(counts().spill_bytes, 0u) << "what is below is of no use to a dirty block";
  const std::uint64_t before = counts().page_outs;
  pager_.page_out_all();
  EXPECT_EQ(counts().page_outs, before + 1) << "it is copied again";
}

TEST_F(AdvancingTest, ThePlanHasWhatLeftAheadUntilItAwaitsIt) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  ASSERT_TRUE(is_gone_in_time(1));
  const std::uint64_t before = counts().ops_as_planned;
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned - before, 1u);
  script_.at_begin = {{.kind = Kind::kAwait, .block = &out, .number = out.number}};
  script_.planned = 0_B;
  run_op();
  EXPECT_EQ(counts().ops_as_planned - before, 2u);
  EXPECT_EQ(counts().planned_difference_bytes, 0u);
}

TEST_F(AdvancingTest, OpsInARowAreCountedUpToOneThatIsNotAsPlanned) {
  start_following(room_for(4));
  Block& block = make(kBlock, 1);
  script_.planned = kBlock;
  for (int op = 0; op < 3; ++op) run_op(&block);
  script_.planned = 0_B;
  run_op(&block);
  script_.planned = kBlock;
  for (int op = 0; op < 2; ++op) run_op(&block);
  EXPECT_EQ(counts().ops_as_planned, 5u);
  EXPECT_EQ(counts().most_ops_as_planned_in_a_row, 3u);
}

TEST_F(AdvancingTest, ThePlanHasWhatItPagesOutThoughItWasCleanAndLeftAtOnce) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  leave_and_come_back(out, Kind::kAwait);
  run_op();
  ASSERT_TRUE(out.is_clean() && !out.is_absent());
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op();
  ASSERT_TRUE(out.is_absent());
  EXPECT_EQ(counts().clean_drops, 1u);
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(AdvancingTest, ThePlanDoesNotHaveWhatWasToBeDropped) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);  // dirty, against the plan
  script_.at_end = {{Kind::kDrop, &out}};
  run_op(&out);
  ASSERT_TRUE(is_gone_in_time(1));
  script_.planned = 0_B;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(AdvancingTest, ThePlanNoLongerHasWhatItsPageInsWaitFor) {
  start_following(room_for(1));
  Block& out = make(kBlock, 1);
  Block& in = make(kBlock, 2);
  run_op(&out);
  const std::uint64_t before = counts().page_outs;
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  ASSERT_TRUE(is_gone_in_time(before + 1));
  script_.at_begin = {{.kind = Kind::kAwaitQueued, .block = &out, .number = out.number}, {Kind::kPageIn, &in}};
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
}

TEST_F(AdvancingTest, NoOpCallsTheMachineForAPageOut) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  told_.holds = true;
  take_away(first);
  ASSERT_TRUE(comes_to([&] { return told_.begun == 1; }));
  const std::uint64_t before = binding_.system_calls();
  take_away(second);
  EXPECT_EQ(binding_.system_calls(), before);
  EXPECT_EQ(counts().resident_bytes, room_for(2).count()) << "until it is below";
  told_.holds = false;
  EXPECT_TRUE(is_gone_in_time(2));
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_TRUE(is_filled(second, 2));
}

TEST_F(AdvancingTest, WhatIsNeededAfterAllIsWhereItWasWithoutAPageIn) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  take_away(first, second);
  EXPECT_TRUE(holds(second, 2));
  write(second, 3);
  EXPECT_EQ(counts().page_outs, 0u) << "its copy never began";
  go_on_soon();
  EXPECT_TRUE(holds(first, 1));
  EXPECT_FALSE(first.is_clean());
  EXPECT_EQ(counts().page_outs, 1u);
  EXPECT_EQ(counts().page_ins, 0u);
  EXPECT_TRUE(is_filled(second, 3));
}

TEST_F(AdvancingTest, ADirectReaderHasWhatLeavesBack) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  take_away(first, second);
  EXPECT_TRUE(is_filled(second, 2));
  EXPECT_EQ(counts().faults, 0u) << "its pages did not move yet";
  go_on_soon();
  EXPECT_TRUE(is_filled(first, 1));
  EXPECT_EQ(counts().faults, 1u);
  EXPECT_EQ(counts().page_ins, 0u);
}

TEST_F(AdvancingTest, AnExportHasWhatLeavesBack) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  take_away(first, second);
  pager_.pin_export(second);
  EXPECT_TRUE(is_filled(second, 2));
  EXPECT_EQ(counts().page_ins, 0u);
  pager_.unpin_export(second);
  told_.holds = false;
}

TEST_F(AdvancingTest, BlocksDieWhileTheyLeave) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  take_away(first, second);
  destroy(second);
  go_on_soon();
  destroy(first);
  EXPECT_EQ(counts().resident_bytes, 0u);
  EXPECT_EQ(counts().spill_bytes, 0u);
}

TEST_F(AdvancingTest, WhatTheMachineDoesNotLetGoStays) {
  start_following(room_for(4));
  Block& first = make(kBlock, 1);
  Block& second = make(kBlock, 2);
  take_away(first, second);
  ASSERT_EQ(munmap(second.data, kPage.count()), 0);  // its protection cannot be changed
  told_.holds = false;
  EXPECT_TRUE(comes_to([&] { return counts().failed_actions == 1; }));
  ASSERT_EQ(mmap(second.data, kPage.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            second.data);
  EXPECT_FALSE(second.is_absent());
  EXPECT_EQ(second.data[kPage.count()], static_cast<std::byte>(word_at(2, kPage.count())));
  EXPECT_EQ(counts().spill_bytes, kBlock.count()) << "the first";
}

TEST_F(AdvancingTest, WhatLeavesIsThereAfterAFork) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  pager_.before_fork();
  transfer::ChildProcess child([&] {
    pager_.after_fork(true);
    EXPECT_TRUE(is_filled(out, 1));
    fill(out, 2);
    EXPECT_TRUE(holds(out, 2));
  });
  pager_.after_fork(false);
  child.join();
  EXPECT_TRUE(holds(out, 1));
}

TEST_F(AdvancingTest, WaitingForACopyThatPageInsAwaitedForgetsNothingOfALaterPageOut) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  leave_and_come_back(out, Kind::kAwaitQueued);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op();
  ASSERT_TRUE(out.is_absent());
  script_.at_begin = {{.kind = Kind::kAwaitCopy, .block = &out, .number = out.number}};
  script_.planned = kBlock;
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u) << "that is awaited later";
}

TEST_F(AdvancingTest, WhatAnotherSourcePagedOutIsNotThisOnes) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  Script other;
  other.planned = 0_B;
  pager_.follow(&other);
  ASSERT_TRUE(is_gone_in_time(1));
  run_op();
  EXPECT_EQ(counts().ops_as_planned, 1u);
  pager_.follow(&script_);
}

TEST_F(AdvancingTest, WhatCannotBeWrittenStays) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  told_.fails = true;
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  EXPECT_TRUE(comes_to([&] { return counts().failed_actions == 1; }));
  EXPECT_FALSE(out.is_absent());
  EXPECT_TRUE(is_filled(out, 1));
  told_.fails = false;
}

TEST_F(AdvancingTest, NothingIsDoneWhereNoPlanIsFollowed) {
  start_following(room_for(4));
  Block& out = make(kBlock, 1);
  script_.at_end = {{Kind::kPageOut, &out}};
  run_op(&out);
  pager_.follow(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counts().handling_beside_seconds, 0.0);
  EXPECT_EQ(counts().page_outs, 0u);
  EXPECT_TRUE(holds(out, 1));
  EXPECT_EQ(counts().page_ins, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
