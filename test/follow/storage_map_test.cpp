#include "tensorpager/follow/storage_map.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;
using Arguments = StorageMap::Arguments;
using Replacing = StorageMap::Replacing;

constexpr StorageId kState{2}, kNew{3};
constexpr std::uint32_t kUse = 0, kStep = 1;

/// `use` reads a weight and a bias; `step` writes a state and makes one that dies after it.
Agenda agenda_with(std::vector<std::optional<std::uint64_t>> identities) {
  trace::Trace trace{.storages = {{.bytes = kSize, .entry = true},
                                  {.bytes = kOtherSize, .entry = true},
                                  {.bytes = kSize, .entry = true},
                                  {.bytes = kSize}},
                     .ops = {{.name = "use", .reads = {kWeight, kBias}},
                             {.name = "step", .writes = {kState}, .births = {kNew}, .deaths = {kNew}}}};
  for (std::size_t i = 0; i < identities.size(); ++i) trace.storages[i].identity = identities[i];
  return Agenda(trace, Plan{.budget = 1_MiB, .ops = 2});
}

class StorageMapTest : public testing::Test {
 protected:
  Arguments match(const std::vector<Block*>& touched, Replacing replacing = Replacing::kYes) {
    map_.begin_op();
    return map_.match_arguments(kUse, touched, replacing);
  }

  SizedBlock weight_{kSize}, bias_{kOtherSize}, state_{kSize}, other_{kSize};
  const Agenda agenda_ = agenda_with({});
  StorageMap map_{agenda_};
};

TEST_F(StorageMapTest, ABlockIsOneStorageAndAStorageOneBlock) {
  map_.bind(kWeight, weight_);
  map_.bind(kState, weight_);
  EXPECT_EQ(map_.block_of(kWeight), nullptr);
  EXPECT_EQ(map_.storage_of(weight_), kState);
  map_.bind(kState, other_);
  EXPECT_FALSE(map_.knows(weight_));
  EXPECT_EQ(map_.storage_of(other_), kState);
}

TEST_F(StorageMapTest, ForgetsABlockThatDied) {
  map_.bind(kWeight, weight_);
  map_.died(weight_);
  map_.died(bias_);
  EXPECT_EQ(map_.block_of(kWeight), nullptr);
  EXPECT_EQ(map_.storage_of(weight_), std::nullopt);
}

TEST_F(StorageMapTest, AnUnknownArgumentIsTheUnknownBlockOfItsSize) {
  map_.bind(kWeight, weight_);
  EXPECT_EQ(match({&weight_, &other_}), Arguments::kAsKnown) << "of another size";
  EXPECT_EQ(match({&weight_, &bias_}), Arguments::kRebound);
  EXPECT_EQ(map_.block_of(kBias), &bias_);
  EXPECT_EQ(match({&weight_, &bias_}), Arguments::kAsKnown);
}

TEST(StorageMap, UnknownBlocksOfOneSizeAreBoundByAge) {
  SizedBlock older(kSize), younger(kSize);
  older.number = 5;
  younger.number = 9;
  const trace::Trace trace{.storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize, .entry = true}},
                           .ops = {{.name = "list", .reads = {kWeight, kBias}}}};
  const Agenda agenda(trace, Plan{.budget = 1_MiB, .ops = 1});
  for (const std::vector<Block*>& touched : {std::vector<Block*>{&older, &younger}, {&younger, &older}}) {
    StorageMap map(agenda);
    map.match_arguments(kUse, touched, Replacing::kYes);
    EXPECT_EQ(map.block_of(kWeight), &older);
    EXPECT_EQ(map.block_of(kBias), &younger);
  }
}

TEST_F(StorageMapTest, TellsAnOpThatUsesStoragesThatAreNotItsArguments) {
  map_.bind(kWeight, weight_);
  map_.bind(kState, state_);
  EXPECT_EQ(match({&weight_, &state_}), Arguments::kOthers);
}

TEST_F(StorageMapTest, ABlockUsedInsteadOfAnArgumentTakesItsPlace) {
  map_.bind(kWeight, weight_);
  map_.bind(kBias, bias_);
  EXPECT_EQ(match({&weight_, &other_, &bias_}), Arguments::kAsKnown) << "the argument is used, too";
  EXPECT_EQ(match({&other_, &bias_}, Replacing::kNo), Arguments::kAsKnown);
  EXPECT_EQ(match({&other_, &bias_}), Arguments::kRebound);
  EXPECT_EQ(map_.block_of(kWeight), &other_);
  EXPECT_EQ(map_.replaced(), std::vector<Block*>{&weight_});
  EXPECT_EQ(match({&other_, &bias_}), Arguments::kAsKnown);
  EXPECT_TRUE(map_.replaced().empty());
}

TEST_F(StorageMapTest, WhatLivesOnContinuesAnUnknownStorageThatTheOpWrites) {
  map_.bind(kNew, other_);
  EXPECT_EQ(map_.take_over(kNew, kStep), &other_);
  EXPECT_EQ(map_.block_of(kState), &other_);
  EXPECT_EQ(map_.take_over(kNew, kStep), nullptr) << "it has no block now";
}

TEST_F(StorageMapTest, WhatLivesOnContinuesAStorageThatDiedInsteadWithinTheOp) {
  map_.bind(kWeight, weight_);
  map_.bind(kState, state_);
  map_.bind(kNew, other_);
  EXPECT_EQ(map_.take_over(kNew, kStep), nullptr) << "all are there";
  map_.died(weight_);
  map_.begin_op();
  EXPECT_EQ(map_.take_over(kNew, kStep), nullptr) << "it died before";
  map_.bind(kWeight, weight_);
  map_.died(weight_);
  EXPECT_EQ(map_.take_over(kNew, kStep), &other_);
  EXPECT_EQ(map_.block_of(kWeight), &other_);
}

TEST_F(StorageMapTest, AdoptsByIdentityFirstAndTheRestBySize) {
  const Agenda named = agenda_with({5, std::nullopt, 6}), renamed = agenda_with({6, std::nullopt, std::nullopt});
  StorageMap from(named), to(renamed);
  from.bind(kWeight, weight_);
  from.bind(kBias, bias_);
  from.bind(kState, state_);
  from.bind(kNew, other_);
  to.adopt_entries(from);
  EXPECT_EQ(to.block_of(kWeight), &state_);
  EXPECT_EQ(to.block_of(kBias), &bias_);
  EXPECT_EQ(to.block_of(kState), &weight_);
  EXPECT_EQ(to.block_of(kNew), nullptr) << "it is not alive between windows";
}

TEST_F(StorageMapTest, AdoptsNoBlockOfAnotherSizeAndNoneThatItKnows) {
  const Agenda named = agenda_with({std::nullopt, 5}), renamed = agenda_with({5});
  StorageMap from(named), to(renamed);
  from.bind(kBias, bias_);
  from.bind(kWeight, weight_);
  to.bind(kState, weight_);
  to.adopt_entries(from);
  EXPECT_EQ(to.block_of(kWeight), nullptr);
  EXPECT_EQ(to.block_of(kBias), &bias_);
  EXPECT_EQ(to.block_of(kState), &weight_);
}

}  // namespace
}  // namespace tensorpager::follow
