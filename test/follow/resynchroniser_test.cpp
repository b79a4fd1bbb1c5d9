#include "tensorpager/follow/resynchroniser.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "sized_block.h"

namespace tensorpager::follow {
namespace {

using base::Bytes;
using base::operator""_KiB;
using base::operator""_MiB;

/// An op for each letter; each reads a weight of its own, but capitals, which touch nothing.
Agenda agenda_of(const std::string& ops) {
  trace::Trace trace;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    trace.storages.push_back({.bytes = kSize, .entry = true});
    trace.ops.push_back({.name = std::string(1, ops[i])});
    if (std::islower(ops[i]) != 0) trace.ops.back().reads = {StorageId{i}};
  }
  return Agenda(trace, Plan{.budget = 1_MiB, .ops = static_cast<std::uint32_t>(ops.size())});
}

class ResynchroniserTest : public testing::Test {
 protected:
  static OpSignature op(char name, Bytes size = kSize) {
    OpSignature signature{.name = base::name_hash(std::string(1, name))};
    if (std::islower(name) != 0) signature.add(size);
    return signature;
  }
  /// An op that was followed where the plan has it.
  void follow(const OpSignature& one) {
    resync_.note_op(one);
    resync_.note_found(one);
    resync_.note_followed();
  }
  void miss(const OpSignature& one, std::uint32_t position, const std::vector<Block*>& touched = {}) {
    resync_.note_op(one);
    resync_.note_miss(one, touched, position, map_);
  }
  /// Where the next op comes.
  std::optional<std::uint32_t> find(const OpSignature& one, std::uint32_t position) {
    resync_.note_op(one);
    return resync_.find(one, position);
  }

  const Agenda agenda_ = agenda_of("abcabdefgSh");
  StorageMap map_{agenda_};
  Resynchroniser resync_{agenda_};
};

TEST_F(ResynchroniserTest, FindsNothingWhereNothingWasMissed) {
  follow(op('a'));
  EXPECT_EQ(find(op('d'), 1), std::nullopt);
}

TEST_F(ResynchroniserTest, FindsTwoOpsInARowFurtherOn) {
  follow(op('a'));
  miss(op('e'), 1);
  EXPECT_EQ(find(op('f'), 1), 7u);
}

TEST_F(ResynchroniserTest, FindsOneOpNowhere) {
  follow(op('a'));
  miss(op('x'), 1);
  EXPECT_EQ(find(op('f'), 1), std::nullopt) << "before it comes another";
}

TEST_F(ResynchroniserTest, FindsTheWindowsBegin) {
  follow(op('e'));
  miss(op('a'), 7);
  EXPECT_EQ(find(op('b'), 7), 1u);
}

TEST_F(ResynchroniserTest, WaitsForALayerToPassThatThePlanDoesNotHave) {
  const Agenda agenda = agenda_of("abcdabcdefghab");
  Resynchroniser resync(agenda);
  for (const char name : {'a', 'b', 'c', 'd', 'a', 'b', 'c', 'd', 'a'}) resync.note_op(op(name));
  resync.note_miss(op('a'), {}, 8, StorageMap(agenda));
  resync.note_op(op('b'));
  EXPECT_EQ(resync.find(op('b'), 8), std::nullopt) << "another place has more of the last ops than the plan's end";
}

TEST_F(ResynchroniserTest, FindsTheOpAfterASilentOne) {
  follow(op('g'));
  resync_.note_op(op('S'));
  resync_.note_silent(op('S'));
  EXPECT_FALSE(resync_.has_missed());
  EXPECT_EQ(resync_.silent(), op('S'));
  EXPECT_EQ(find(op('h'), 8), 10u);
  resync_.note_found(op('h'));
  EXPECT_EQ(find(op('h'), 8), std::nullopt) << "it is no longer the op before";
}

TEST_F(ResynchroniserTest, KnowsAMissedOpByWhatItTouches) {
  SizedBlock weight{kSize}, other{kSize};
  map_.bind(StorageId{6}, weight);
  miss(op('e'), 1, {&other});
  EXPECT_EQ(resync_.likely(), std::nullopt);
  miss(op('e'), 1, {&weight, &other});
  EXPECT_EQ(resync_.likely(), 6u);
  resync_.note_found(op('f'));
  EXPECT_EQ(resync_.likely(), std::nullopt);
}

TEST_F(ResynchroniserTest, FindsTheOpAfterALikelyOneOfOtherSizes) {
  SizedBlock weight{kOtherSize};
  map_.bind(StorageId{6}, weight);
  miss(op('e', kOtherSize), 1, {&weight});
  EXPECT_EQ(find(op('f'), 1), 7u);
}

TEST_F(ResynchroniserTest, FindsOpsOfOtherSizesByTheNamesOfTheLastFour) {
  follow(op('c'));
  for (const char name : {'d', 'e', 'f'}) {
    EXPECT_EQ(find(op(name, kOtherSize), 3), std::nullopt);
    resync_.note_miss(op(name, kOtherSize), {}, 3, map_);
  }
  EXPECT_EQ(find(op('g', kOtherSize), 3), 8u);
  resync_.reset();
  EXPECT_EQ(find(op('g', kOtherSize), 3), std::nullopt);
}

}  // namespace
}  // namespace tensorpager::follow
