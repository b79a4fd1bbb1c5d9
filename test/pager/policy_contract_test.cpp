// What every eviction policy must do. To add one, add a line at the end. What only LRU promises comes after it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tensorpager/pager/lru_policy.h"

namespace tensorpager::pager {
namespace {

struct PolicyCase {
  const char* name;
  std::function<std::unique_ptr<EvictionPolicy>()> make;
};

/// Blocks without memory: a policy looks at their words and times only.
class Blocks {
 public:
  explicit Blocks(std::size_t count) : blocks_(count) {}

  Block& operator[](std::size_t i) { return blocks_[i]; }
  std::size_t size() const { return blocks_.size(); }
  void next_op() { ++now_; }
  void use(std::size_t i) { blocks_[i].last_use = now_; }
  void pin(std::size_t i) {
    use(i);
    blocks_[i].word += kPin;
  }
  void unpin(std::size_t i) { blocks_[i].word -= kPin; }

 private:
  std::vector<Block> blocks_;
  std::uint64_t now_ = 0;
};

class PolicyContract : public testing::TestWithParam<PolicyCase> {
 protected:
  void add(std::size_t i) {
    blocks_.next_op();
    blocks_.use(i);
    policy_->add(blocks_[i]);
  }

  std::unique_ptr<EvictionPolicy> policy_ = GetParam().make();
  Blocks blocks_{64};
};

TEST_P(PolicyContract, ChoosesNothingWhereNothingIsResident) {
  EXPECT_EQ(policy_->choose(), nullptr);
  add(0);
  policy_->remove(blocks_[0]);
  EXPECT_EQ(policy_->choose(), nullptr);
  EXPECT_EQ(policy_->size(), 0u);
}

TEST_P(PolicyContract, ChoosesNothingWhereAllArePinned) {
  for (std::size_t i = 0; i < 8; ++i) {
    add(i);
    if (i % 2 == 0)
      blocks_.pin(i);
    else
      blocks_[i].word += kExport;
  }
  EXPECT_EQ(policy_->choose(), nullptr);
  blocks_.unpin(4);
  EXPECT_EQ(policy_->choose(), &blocks_[4]);
  blocks_.pin(4);
  EXPECT_EQ(policy_->choose(), nullptr);
}

TEST_P(PolicyContract, ChoosesACleanBlockToo) {
  add(0);
  blocks_[0].word = kClean;
  EXPECT_EQ(policy_->choose(), &blocks_[0]);
}

TEST_P(PolicyContract, LeavesWhatItChose) {
  add(0);
  EXPECT_EQ(policy_->choose(), &blocks_[0]);
  EXPECT_EQ(policy_->choose(), &blocks_[0]);
  EXPECT_EQ(policy_->size(), 1u);
}

TEST_P(PolicyContract, ChoosesEveryBlockInTheEnd) {
  std::set<Block*> expected;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    add(i);
    expected.insert(&blocks_[i]);
  }
  blocks_.next_op();
  for (std::size_t i = 0; i < 20; ++i) blocks_.use(i * 3);
  while (Block* chosen = policy_->choose()) {
    ASSERT_EQ(expected.erase(chosen), 1u) << "chosen twice";
    policy_->remove(*chosen);
  }
  EXPECT_TRUE(expected.empty());
}

TEST_P(PolicyContract, NumbersEachResidentBlockOnce) {
  std::set<Block*> expected;
  for (std::size_t i = 0; i < 20; ++i) add(i);
  for (std::size_t i = 0; i < 20; i += 3) policy_->remove(blocks_[i]);
  for (std::size_t i = 0; i < 20; ++i) {
    if (i % 3 != 0) expected.insert(&blocks_[i]);
  }
  std::set<Block*> found;
  for (std::size_t i = 0; i < policy_->size(); ++i) found.insert(policy_->at(i));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(policy_->size(), expected.size());
}

TEST_P(PolicyContract, NeverChoosesAPinnedBlockInRandomPrograms) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  std::vector<bool> resident(blocks_.size());
  std::vector<int> pins(blocks_.size());
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t i = random() % blocks_.size();
    if (!resident[i]) {
      add(i);
      resident[i] = true;
    } else if (random() % 3 == 0 && pins[i] < 3) {
      blocks_.pin(i);
      ++pins[i];
    } else if (pins[i] > 0) {
      blocks_.unpin(i);
      --pins[i];
    } else if (random() % 4 == 0) {
      policy_->remove(blocks_[i]);
      resident[i] = false;
    } else {
      blocks_.use(i);
    }
    std::size_t unpinned = 0;
    for (std::size_t k = 0; k < blocks_.size(); ++k) unpinned += resident[k] && pins[k] == 0 ? 1 : 0;
    const Block* chosen = policy_->choose();
    ASSERT_EQ(chosen != nullptr, unpinned > 0) << "step " << step;
    if (chosen == nullptr) continue;
    const auto index = static_cast<std::size_t>(chosen - &blocks_[0]);
    ASSERT_TRUE(resident[index] && pins[index] == 0) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyContract,
                         testing::Values(PolicyCase{"Lru", [] { return std::make_unique<LruPolicy>(); }}),
                         [](const auto& instance) { return instance.param.name; });

class LruOrder : public testing::TestWithParam<unsigned> {};

// The naive model looks at every block. A block that was pinned when the policy last looked at it counts as used then,
// so it may stay longer than its last use says; nothing that was never so may be passed over.
TEST_P(LruOrder, IsThatOfTheLastUse) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 random(GetParam());
  const bool with_pins = GetParam() % 2 == 0;
  LruPolicy policy;
  Blocks blocks(40);
  std::vector<bool> resident(blocks.size());
  std::vector<bool> was_pinned(blocks.size());
  int chosen_count = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::size_t i = random() % blocks.size();
    if (random() % 2 == 0) blocks.next_op();
    if (!resident[i]) {
      blocks.use(i);
      policy.add(blocks[i]);
      resident[i] = true;
      was_pinned[i] = false;
    } else if (with_pins && random() % 4 == 0) {
      if (blocks[i].is_pinned())
        blocks.unpin(i);
      else
        blocks.pin(i);
    } else {
      blocks.use(i);
    }
    if (random() % 3 != 0) continue;
    Block* chosen = policy.choose();
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (!resident[k]) continue;
      was_pinned[k] = was_pinned[k] || blocks[k].is_pinned();
      if (chosen == nullptr || was_pinned[k]) continue;
      ASSERT_GE(blocks[k].last_use, chosen->last_use) << "step " << step << ": passed over block " << k;
    }
    if (chosen == nullptr) continue;
    ++chosen_count;
    policy.remove(*chosen);
    resident[static_cast<std::size_t>(chosen - &blocks[0])] = false;
  }
  EXPECT_GT(chosen_count, 500);
}

INSTANTIATE_TEST_SUITE_P(Seed, LruOrder, testing::Range(1u, 13u), testing::PrintToStringParamName());

// Three blocks of one op: the first is pinned, the second is used again in the next op.
TEST(LruPolicy, ChoosesTheOlderOfTwoBlocksBehindAPinnedOne) {
  LruPolicy policy;
  Blocks blocks(3);
  blocks.next_op();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks.use(i);
    policy.add(blocks[i]);
  }
  blocks.pin(0);
  blocks.next_op();
  blocks.use(1);
  EXPECT_EQ(policy.choose(), &blocks[2]);
}

// Raw addresses of more blocks than there is room for, read in turn between two ops: what was faulted in last must
// stay.
TEST(LruPolicy, ChoosesTheFirstToArriveWhereNoOpTellsThemApart) {
  LruPolicy policy;
  Blocks blocks(40);
  for (std::size_t i = 0; i < 12; ++i) policy.add(blocks[i]);
  for (std::size_t i = 12; i < blocks.size(); ++i) {
    Block* chosen = policy.choose();
    ASSERT_EQ(chosen, &blocks[i - 12]);
    policy.remove(*chosen);
    policy.add(blocks[i]);
  }
  blocks.pin(28);
  blocks.pin(29);
  EXPECT_EQ(policy.choose(), &blocks[30]);
}

}  // namespace
}  // namespace tensorpager::pager
