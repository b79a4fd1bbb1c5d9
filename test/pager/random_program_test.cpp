// Random programs against a model that knows contents, pins and what must be refused. After each step the budget holds,
// by our count and by the kernel's.
#include <map>
#include <random>
#include <set>
#include <string>

#include "../random_cases.h"
#include "pager_fixture.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::pager {
namespace {

using namespace base;

struct Seeded {
  Tier tier;
  unsigned seed;
};

class RandomProgramTest : public PagerTest, public testing::WithParamInterface<Seeded> {
 protected:
  static constexpr Bytes kBudget{std::uint64_t{8} << 20};

  struct Op {
    std::unique_ptr<PinSet> pins;
    bool keeps;
    std::vector<Block*> pinned;  // once for each pin; the dead ones too
  };

  std::uint64_t below(std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_); }
  Block& any_block() { return *blocks_[below(blocks_.size())]; }
  bool is_alive(Block* block) const { return seeds_.count(block) != 0; }

  /// Bytes that cannot be evicted, once for each block.
  Bytes unevictable(std::set<Block*> blocks = {}) const {
    for (const Op& op : ops_) blocks.insert(op.pinned.begin(), op.pinned.end());
    blocks.insert(exports_.begin(), exports_.end());
    Bytes sum;
    for (Block* block : blocks) sum += is_alive(block) ? block->charged : Bytes(0);
    return sum;
  }

  /// Runs `action`, which wants `bytes` to be unevictable at once, and checks that it is refused just where that is too
  /// much.
  template <typename Action>
  bool try_within(Bytes bytes, Action action) {
    try {
      action();
      EXPECT_LE(bytes, kBudget) << "was not refused";
      return true;
    } catch (const OverBudget&) {
      EXPECT_GT(bytes, kBudget) << "was refused";
      ++refused_;
      return false;
    }
  }

  void create() {
    const Bytes size(below(12) == 0 ? (2 << 20) + below(3 << 20) : 1 + below(128 << 10));
    Block* block = nullptr;
    if (!try_within(unevictable() + round_up(size, kPage), [&] { block = &pager_.storages().create(size); })) return;
    blocks_.push_back(block);
    if (!ops_.empty() && ops_.back().keeps) ops_.back().pinned.push_back(block);
    write_directly(*block);
  }
  void write_directly(Block& block) {
    fill(block, ++last_seed_);
    seeds_[&block] = last_seed_;
  }
  void kill(Block& block) {
    seeds_.erase(&block);
    destroy(block);
  }

  void open_op() {
    std::vector<std::pair<Block*, Access>> arguments;
    for (std::uint64_t i = 0; i <= below(4); ++i)
      arguments.emplace_back(&any_block(), below(3) == 0 ? Access::kWrite : Access::kRead);
    const bool keeps = below(4) != 0;
    Op op{std::make_unique<PinSet>(pager_, keeps ? Temporaries::kKeep : Temporaries::kLetGo), keeps, {}};
    std::set<Block*> seen;
    for (const auto& [block, access] : arguments) {
      op.pins->see(*block, access);
      op.pinned.push_back(block);
      seen.insert(block);
    }
    if (!try_within(unevictable(seen), [&] { op.pins->admit(); })) return;
    for (const auto& [block, access] : arguments) EXPECT_TRUE(is_filled(*block, seeds_[block]));
    for (const auto& [block, access] : arguments) {
      if (access == Access::kWrite) write_directly(*block);
    }
    ops_.push_back(std::move(op));
  }

  void change_export() {
    if (below(2) == 0 || exports_.size() > 3) {
      if (exports_.empty()) return;
      const auto which = exports_.begin() + static_cast<std::ptrdiff_t>(below(exports_.size()));
      pager_.outside().unpin_export(**which);
      exports_.erase(which);
      return;
    }
    Block& block = any_block();
    if (try_within(unevictable({&block}), [&] { pager_.outside().pin_export(block.data + below(block.size.count())); }))
      exports_.push_back(&block);
  }

  void access_directly() {
    Block& block = any_block();
    if (unevictable({&block}) > kBudget) return;  // would be served, and exceed the budget
    EXPECT_TRUE(is_filled(block, seeds_[&block]));
    if (below(2) == 0) write_directly(block);
  }

  void step() {
    pager_.boundaries().op_begins();
    const std::uint64_t kind = below(20);
    if (blocks_.empty() || (kind < 6 && blocks_.size() < 60)) return create();
    if (kind < 8) return kill(any_block());
    if (kind < 12 && ops_.size() < 5) return open_op();
    if (kind < 16) return ops_.empty() ? void() : ops_.pop_back();
    if (kind < 17) return change_export();
    if (kind < 19) return access_directly();
    if (below(4) == 0) pager_.page_out_all();
  }

  void check() {
    const Statistics now = counts();
    std::set<Block*> pinned;
    for (const Op& op : ops_) pinned.insert(op.pinned.begin(), op.pinned.end());
    std::set<Block*> records(blocks_.begin(), blocks_.end());
    records.insert(pinned.begin(), pinned.end());
    records.insert(exports_.begin(), exports_.end());
    std::erase_if(pinned, [&](Block* block) { return !is_alive(block); });
    Bytes live;
    for (Block* block : blocks_) live += block->charged;
    ASSERT_EQ(now.pins, pinned.size());
    ASSERT_EQ(now.live_blocks, blocks_.size());
    ASSERT_EQ(now.records, records.size());
    ASSERT_EQ(now.live_bytes, live.count());
    ASSERT_LE(now.resident_bytes + now.pooled_bytes, kBudget.count());
    ASSERT_LE(now.peak_bytes, kBudget.count());
    ASSERT_EQ(now.over_budget_bytes, 0u);
    ASSERT_LE(witness().count(), now.resident_bytes + now.pooled_bytes);
  }

  std::mt19937_64 random_{GetParam().seed};
  std::map<Block*, std::uint64_t> seeds_;  // of the contents of each block that is alive
  std::vector<Op> ops_;                    // those that run, the innermost last
  std::vector<Block*> exports_;            // once for each
  std::uint64_t last_seed_ = 0;
  int refused_ = 0;
};

TEST_P(RandomProgramTest, KeepsTheBudgetAndEveryByte) {
  SCOPED_TRACE("seed " + std::to_string(GetParam().seed));
  start(kBudget, GetParam().tier.make());
  for (int number = 0; number < 800; ++number) {
    SCOPED_TRACE("step " + std::to_string(number));
    step();
    check();
    if (HasFailure()) break;
  }
  while (!ops_.empty()) ops_.pop_back();
  for (Block* block : exports_) pager_.outside().unpin_export(*block);
  for (Block* block : blocks_) ASSERT_TRUE(holds(*block, seeds_[block]));
  const Statistics end = counts();
  EXPECT_GT(refused_, 0);
  EXPECT_GT(end.page_outs, 50u);
  EXPECT_GT(end.clean_drops, 50u);
  EXPECT_GT(end.faults, 10u);
  EXPECT_GT(end.write_faults, 5u);
  EXPECT_GE(end.need_bytes, end.peak_bytes - end.pooled_bytes);
  EXPECT_LE(end.floor_bytes, end.need_bytes + (16_MiB).count());
}

#ifdef __SANITIZE_THREAD__
constexpr unsigned kSeeds = 1;  // one thread: there is little for ThreadSanitizer to see, and it takes its time
#else
constexpr unsigned kSeeds = random_cases(6, 3);
#endif

std::vector<Seeded> cases() {
  std::vector<Seeded> all;
  for (const Tier& tier : kTiers) {
    for (unsigned seed = 1; seed <= kSeeds; ++seed) all.push_back({tier, seed});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Programs, RandomProgramTest, testing::ValuesIn(cases()), [](const auto& instance) {
  return std::string(instance.param.tier.name) + std::to_string(instance.param.seed);
});

}  // namespace
}  // namespace tensorpager::pager
