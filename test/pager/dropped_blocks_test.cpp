// Blocks that are dropped: they hold nothing until somebody needs them, and then have the bytes that a replay made.
#include <functional>
#include <map>
#include <set>

#include "executor_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

/// Makes the bytes of a block from its seed, as an op that is run again would.
class Seeds final : public Rebuilder {
 public:
  explicit Seeds(Pager& pager) : pager_(pager) {}

  std::map<std::uint64_t, std::uint64_t> seeds;  // by number of the block
  std::map<std::uint64_t, Bytes> sizes;
  std::function<void()> before_take_over = [] {};
  std::set<std::uint64_t> held, exposed;
  std::multiset<std::uint64_t> needed;  // blocks that dropped ones are made from
  std::vector<std::uint64_t> deaths;
  int settled_elsewhere = 0;
  std::chrono::milliseconds takes{0};

  bool hold(Block& block) override {
    if (seeds.contains(block.number)) held.insert(block.number);
    sizes[block.number] = block.size;
    return seeds.contains(block.number);
  }
  void release(const Block& block) noexcept override { held.erase(block.number); }
  bool expose(Block& block) noexcept override {
    exposed.insert(block.number);
    return !needed.contains(block.number);
  }
  std::function<void()> planned = [] {};
  bool replay(const DueReplay&) noexcept override {
    planned();
    return true;
  }
  int ended_plans = 0;
  void end_plan() noexcept override { ++ended_plans; }
  void rebuild(std::uint64_t block) override {
    if (!held.contains(block)) return;
    std::this_thread::sleep_for(takes);
    const PinSet op(pager_, Temporaries::kKeep);
    Block& fresh = pager_.storages().create(sizes.at(block));
    fill(fresh, seeds.at(block));
    before_take_over();
    if (!pager_.dropped().take_over(block, fresh)) pager_.storages().destroy(fresh);
  }
  void settle(std::uint64_t block) override {
    rebuild(block);
    needed.erase(block);
  }
  bool settle_elsewhere(std::uint64_t block) noexcept override {
    ++settled_elsewhere;
    std::thread([&] { settle(block); }).join();
    return true;
  }
  void died(std::uint64_t block) noexcept override {
    held.erase(block);
    deaths.push_back(block);
  }

 private:
  Pager& pager_;
};

class DropsTest : public PagerTest {
 protected:
  DropsTest() { pager_.dropped().set_rebuilder(&seeds_); }
  ~DropsTest() override { pager_.dropped().set_rebuilder(nullptr); }

  Block& make_replayable(Bytes size, std::uint64_t seed) {
    Block& block = make(size, seed);
    seeds_.seeds[block.number] = seed;
    block.is_versioned = true;
    return block;
  }

  Seeds seeds_{pager_};
};

TEST_F(DropsTest, HoldNoMemoryAndNoPlaceInTheTier) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_TRUE(block.is_dropped());
  EXPECT_EQ(counts().resident_bytes, 0U);
  EXPECT_EQ(counts().spill_bytes, 0U);
  EXPECT_EQ(counts().live_bytes, kBlock.count());
  EXPECT_EQ(counts().drop_bytes, kBlock.count());
}

TEST_F(DropsTest, HaveTheirBytesForTheOpThatNeedsThem) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  const std::byte* const address = block.data;
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_TRUE(holds(block, 1));
  EXPECT_EQ(block.data, address);
  EXPECT_EQ(counts().rebuilds, 1U);
  EXPECT_EQ(counts().page_ins, 0U);
  EXPECT_EQ(counts().live_blocks, 1U) << "what the replay made is the block's now";
  EXPECT_TRUE(seeds_.held.empty());
}

TEST_F(DropsTest, OfWhatIsDroppedAlreadyAreRefusedAndLoseNothing) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_FALSE(pager_.dropped().drop(block));
  EXPECT_TRUE(holds(block, 1));
  EXPECT_EQ(counts().drops, 1U);
}

TEST_F(DropsTest, ThatTheMachineRefusesLeaveTheBlockAsItWas) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  binding_.refusals = 1;
  EXPECT_THROW(pager_.dropped().drop(block), IoError);
  EXPECT_EQ(block.residence, Residence::kResident);
  EXPECT_TRUE(is_filled(block, 1));
  EXPECT_TRUE(seeds_.held.empty());
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_TRUE(holds(block, 1));
}

TEST_F(DropsTest, WhoseRebuildTheMachineRefusesCanBeRebuiltLater) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  Script source;
  int deaths = 0;
  source.at_death = [&] { ++deaths; };
  pager_.following().follow(&source);
  binding_.refusals = 1;
  EXPECT_THROW(pager_.end_drops(), IoError);
  EXPECT_EQ(deaths, 1) << "of what the replay had made";
  EXPECT_TRUE(block.is_dropped());
  pager_.following().follow(nullptr);
  EXPECT_TRUE(holds(block, 1));
}

TEST_F(DropsTest, CanBePagedAndDroppedAgainOnceTheyAreRebuilt) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(pager_.dropped().drop(block));
    EXPECT_TRUE(holds(block, 1));
    pager_.page_out_all();
    EXPECT_EQ(block.residence, Residence::kBelow);
    write(block, 1);
  }
}

TEST_F(DropsTest, AreRefusedWithoutARecipeWithAPinAndFromTheTier) {
  start(1_MiB);
  Block& unknown = make(kBlock, 1);
  EXPECT_FALSE(pager_.dropped().drop(unknown));
  Block& block = make_replayable(kBlock, 2);
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    op.admit();
    EXPECT_FALSE(pager_.dropped().drop(block));
  }
  pager_.page_out_all();
  EXPECT_FALSE(pager_.dropped().drop(block));
  EXPECT_TRUE(seeds_.held.empty()) << "who is not dropped holds nothing";
}

TEST_F(DropsTest, GiveUpTheirSlotsIfTheyWereClean) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  pager_.page_out_all();
  EXPECT_TRUE(holds(block, 1));
  EXPECT_TRUE(block.is_clean());
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_EQ(counts().spill_bytes, 0U);
  write(block, 2);
  EXPECT_TRUE(holds(block, 2));
}

TEST_F(DropsTest, AreRebuiltForAnOpWhosePinsWouldLeaveNoRoom) {
  start(room_for(2));
  Block& other = make(kBlock, 1);
  Block& dropped = make_replayable(kBlock, 2);
  ASSERT_TRUE(pager_.dropped().drop(dropped));
  PinSet op(pager_, Temporaries::kKeep);
  op.see(other, Access::kWrite);
  op.see(dropped, Access::kRead);
  op.admit();
  EXPECT_TRUE(is_filled(other, 1));
  EXPECT_TRUE(is_filled(dropped, 2));
}

TEST_F(DropsTest, CountAsBlocksThatLeaveAndReturnInTheCostsOfTransfers) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  seeds_.takes = std::chrono::milliseconds(5);
  EXPECT_TRUE(holds(block, 1));
  EXPECT_EQ(pager_.accounts().transfer_costs().page_out.blocks, 1U);
  EXPECT_EQ(pager_.accounts().transfer_costs().page_in.blocks, 1U);
  EXPECT_GE(counts().replay_seconds, 0.004);
}

/// What a plan's replays take is no cost of transfers, and is counted once, whatever is allocated in them.
TEST_F(DropsTest, OfAPlanAreRebuiltInATimeOfTheirOwn) {
  start(1_MiB);
  Script source;
  pager_.following().follow(&source);
  source.due.emplace();
  const auto begin = std::chrono::steady_clock::now();
  seeds_.planned = [&] {
    source.due.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    make(kBlock, 1);
  };
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.follow(base::name_hash("op"));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  pager_.following().follow(nullptr);
  EXPECT_EQ(seeds_.ended_plans, 1);
  EXPECT_GE(counts().replay_seconds, 0.05);
  EXPECT_LE(counts().paging_seconds, elapsed.count());
  EXPECT_LT(pager_.accounts().transfer_costs().rest, counts().replay_seconds);
}

TEST_F(DropsTest, ThatDieTellTheirRebuilder) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  Block& unversioned = make(kBlock, 2);
  const std::uint64_t number = block.number;
  ASSERT_TRUE(pager_.dropped().drop(block));
  destroy(block);
  destroy(unversioned);
  EXPECT_EQ(seeds_.deaths, std::vector{number});
  EXPECT_TRUE(seeds_.held.empty());
}

/// Another thread may free a block that is being rebuilt as others need it.
TEST_F(DropsTest, MayDieWhileTheyAreRebuilt) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  seeds_.before_take_over = [&] { destroy(block); };
  pager_.end_drops();
  EXPECT_EQ(counts().rebuilds, 0U);
  EXPECT_EQ(counts().live_blocks, 0U);
  EXPECT_TRUE(pager_.dropped().numbers().empty());
}

TEST_F(DropsTest, AreRebuiltOnAnotherThreadForAFault) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  EXPECT_TRUE(is_filled(block, 1));
  EXPECT_EQ(seeds_.settled_elsewhere, 1);
  EXPECT_EQ(counts().faults, 1U);
  EXPECT_TRUE(seeds_.exposed.contains(block.number)) << "who reads outside of ops may write there too";
}

TEST_F(DropsTest, AreRebuiltForAnExport) {
  start(1_MiB);
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  ASSERT_EQ(pager_.outside().pin_export(block.data), &block);
  EXPECT_EQ(counts().faults, 0U);
  EXPECT_TRUE(is_filled(block, 1));
  EXPECT_FALSE(pager_.dropped().drop(block));
  pager_.outside().unpin_export(block);
}

TEST_F(DropsTest, AreSettledBeforeSomebodyGetsTheAddressOfWhatTheyAreMadeFrom) {
  start(1_MiB);
  Block& source = make(kBlock, 1);
  seeds_.needed.insert(source.number);
  ASSERT_EQ(pager_.outside().pin_export(source.data), &source);
  EXPECT_TRUE(seeds_.needed.empty());
  pager_.outside().unpin_export(source);
}

TEST_F(DropsTest, AreAllRebuiltAtTheEndOfTheSession) {
  start(1_MiB);
  std::vector<Block*> all;
  for (std::uint64_t seed = 0; seed < 4; ++seed) all.push_back(&make_replayable(kBlock, seed));
  for (Block* block : all) ASSERT_TRUE(pager_.dropped().drop(*block));
  pager_.stop();
  for (std::uint64_t seed = 0; seed < 4; ++seed) EXPECT_TRUE(is_filled(*all[seed], seed));
}

TEST_F(DropsTest, LoseNothingIfThereIsNoRoomToRebuildThem) {
  start(room_for(1));
  Block& block = make_replayable(kBlock, 1);
  ASSERT_TRUE(pager_.dropped().drop(block));
  Block& other = make(kBlock, 2);
  ASSERT_NE(pager_.outside().pin_export(other.data), nullptr);
  {
    PinSet op(pager_, Temporaries::kKeep);
    op.see(block, Access::kRead);
    EXPECT_THROW(op.admit(), OverBudget);
  }
  pager_.outside().unpin_export(other);
  EXPECT_TRUE(holds(block, 1));
  EXPECT_TRUE(holds(other, 2));
}

TEST_F(DropsTest, AreMadeByTheFuzzerOnlyIfTheyCanBeUndone) {
  Pager::Options options;
  options.budget = 1_MiB;
  options.fuzz = 1;
  options.fuzz_evictions = 0;
  options.fuzz_drops = 4;
  pager_.start(options, ram_queues());
  Block& replayable = make_replayable(kBlock, 1);
  Block& other = make(kBlock, 2);
  for (int op = 0; op < 20; ++op) pager_.boundaries().op_begins();
  EXPECT_TRUE(replayable.is_dropped());
  EXPECT_FALSE(other.is_dropped());
  EXPECT_TRUE(holds(replayable, 1));
}

}  // namespace
}  // namespace tensorpager::pager
