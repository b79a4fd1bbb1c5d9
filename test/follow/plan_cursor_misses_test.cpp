// A chain of ops, each of which reads a weight and what the op before made; one makes a mask, too, for the last. Some
// are left out, or run where the plan has none.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using plan::StorageId;

constexpr std::uint32_t kChainOps = 6;
constexpr std::uint32_t kMasking = 2;
constexpr StorageId kMask{2 * kChainOps};
constexpr Bytes kThirdSize{192 << 10};

const char* name_of(std::uint32_t op) { return std::array{"conv", "norm", "relu"}[op % 3]; }
StorageId weight(std::uint32_t op) { return StorageId{op}; }
StorageId made_by(std::uint32_t op) { return StorageId{kChainOps + op}; }

trace::Trace chain() {
  trace::Trace trace;
  for (std::uint32_t op = 0; op < 2 * kChainOps; ++op)
    trace.storages.push_back({.bytes = kSize, .entry = op < kChainOps});
  for (std::uint32_t op = 0; op < kChainOps; ++op) {
    trace::Op one{.name = name_of(op), .reads = {weight(op)}, .births = {made_by(op)}};
    if (op > 0) one.reads.push_back(made_by(op - 1));
    if (op > 0) one.deaths = {made_by(op - 1)};
    trace.ops.push_back(one);
  }
  trace.storages.push_back({.bytes = kSize});
  trace.ops[kMasking].births.push_back(kMask);
  trace.ops.back().reads.push_back(kMask);
  trace.ops.back().deaths.insert(trace.ops.back().deaths.end(), {made_by(kChainOps - 1), kMask});
  return trace;
}

class ChainTest : public testing::Test {
 protected:
  ChainTest() {
    for (std::uint32_t op = 0; op < kChainOps; ++op) cursor_.bind(weight(op), *weights_[op]);
  }

  /// The op, with what the last one made in the place of what the op before it is to make; whether it was expected.
  bool run(std::uint32_t op) {
    std::vector<Block*> touched = {weights_[op].get()};
    if (op > 0) touched.push_back(made_.get());
    if (op + 1 == kChainOps) touched.push_back(mask_.get());
    base::OpSignature signature{.name = base::name_hash(name_of(op))};
    for (const Block* block : touched) signature.add(block->size);
    std::vector<Action> actions;
    const bool is_expected = cursor_.begin_op(signature, touched, actions);
    auto made = make();
    if (op == kMasking) mask_ = make();
    if (is_expected) cursor_.end_op(actions);
    if (op > 0) cursor_.died(*made_);
    made_ = std::move(made);
    if (op + 1 == kChainOps) cursor_.died(*mask_), cursor_.died(*made_);
    return is_expected;
  }
  std::unique_ptr<Block> make() {
    auto block = block_of(kSize);
    cursor_.created(*block);
    return block;
  }

  std::array<std::unique_ptr<Block>, kChainOps> weights_ = {block_of(kSize), block_of(kSize), block_of(kSize),
                                                            block_of(kSize), block_of(kSize), block_of(kSize)};
  std::unique_ptr<Block> made_, mask_;
  PlanCursor cursor_{std::make_shared<const follow::Agenda>(chain(), plan::Plan{.budget = 1_MiB, .ops = kChainOps})};
};

// The op after the gap is known by its weight, and what it made once the next one agrees.
TEST_F(ChainTest, FindsTheOpsAfterOneThatWasLeftOutByWhatTheyTouch) {
  EXPECT_TRUE(run(0));
  EXPECT_FALSE(run(2));
  EXPECT_EQ(cursor_.block_of(kMask), nullptr);
  EXPECT_TRUE(run(3));
  EXPECT_EQ(cursor_.block_of(kMask), mask_.get());
  EXPECT_EQ(cursor_.position(), 4u);
  EXPECT_TRUE(run(4));
  EXPECT_TRUE(run(5));
  EXPECT_EQ(cursor_.position(), 0u);
  EXPECT_EQ(cursor_.misses(), 1u);
}

// By what it touches alone the ops up to there would have been left out.
TEST_F(ChainTest, IsNotMisledByAnOpThatComesAgainLater) {
  EXPECT_TRUE(run(0));
  EXPECT_FALSE(run(2));
  const auto other_mask = std::move(mask_);
  EXPECT_TRUE(run(1));
  EXPECT_EQ(cursor_.block_of(kMask), nullptr);
  for (std::uint32_t op = 2; op < kChainOps; ++op) EXPECT_TRUE(run(op));
  EXPECT_EQ(cursor_.misses(), 1u);
}

TEST_F(ChainTest, IsNotLedOnByAnOpThatTouchesNothing) {
  EXPECT_TRUE(run(0));
  EXPECT_FALSE(run(2));
  std::vector<Action> actions;
  EXPECT_FALSE(cursor_.begin_op({.name = base::name_hash(name_of(3))}, {}, actions)) << "of something small";
  EXPECT_EQ(cursor_.position(), 1u);
  EXPECT_TRUE(run(3)) << "and it is not in its way";
  EXPECT_EQ(cursor_.block_of(kMask), mask_.get());
}

TEST_F(ChainTest, TakesNoOpForOneThatReadsSomethingElseToo) {
  const auto other = block_of(kSize);
  cursor_.bind(made_by(1), *other);
  EXPECT_TRUE(run(0));
  EXPECT_FALSE(run(2)) << "it has the weight, and not what the plan has read with it";
  EXPECT_EQ(cursor_.block_of(kMask), nullptr);
  run(3);
  EXPECT_EQ(cursor_.block_of(kMask), nullptr);
}

// Two layers of the same ops, and a row of others that has the first two of a layer's near its end; all read the same
// weight.
class LayersTest : public testing::Test {
 protected:
  static trace::Trace layers() {
    trace::Trace trace{.storages = {{.bytes = kSize, .entry = true}}};
    for (const char* name : kNames) trace.ops.push_back({.name = name, .reads = {StorageId{0}}});
    return trace;
  }
  /// Whether it was expected.
  bool run(std::string_view name, Bytes size = kSize) {
    base::OpSignature signature{.name = base::name_hash(name)};
    signature.add(size);
    std::vector<Action> actions;
    const bool is_expected = cursor_.begin_op(signature, {}, actions);
    if (is_expected) cursor_.end_op(actions);
    return is_expected;
  }
  void run_plan(std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t op = begin; op < end; ++op) EXPECT_TRUE(run(kNames[op])) << op;
  }
  void run_once_more(std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t before = cursor_.position();
    for (std::uint32_t op = begin; op < end; ++op) run(kNames[op]);
    EXPECT_EQ(cursor_.position(), before);
  }

  static constexpr std::uint32_t kLayer = 4;
  static constexpr std::uint32_t kHead = 2 * kLayer;
  static constexpr std::array kNames = {"norm", "mm",  "relu",  "add",  "norm", "mm",     "relu", "add",
                                        "head", "exp", "sum",   "div",  "log",  "gather", "mean", "neg",
                                        "sqrt", "mul", "clone", "norm", "mm",   "step"};
  static constexpr std::uint32_t kStep = kNames.size() - 1;
  PlanCursor cursor_{std::make_shared<const follow::Agenda>(
      layers(), plan::Plan{.budget = 1_MiB, .ops = static_cast<std::uint32_t>(kNames.size())})};
};

TEST_F(LayersTest, OfWhichThereIsOneMoreArePassedBy) {
  run_plan(0, kHead);
  run_once_more(kLayer, kHead);  // its first two ops come next further on
  run_plan(kHead, kHead + 1);
  EXPECT_EQ(cursor_.windows(), 0u);
}

TEST_F(LayersTest, AreNotTakenForTheWindowsBegin) {
  run_plan(0, kStep);
  run_once_more(kHead + 5, kStep);
  EXPECT_EQ(cursor_.windows(), 0u);
}

TEST_F(LayersTest, OfWhichOneIsLeftOutAreFoundFurtherOn) {
  run_plan(0, kLayer);
  for (std::uint32_t op = kHead + 5; op <= kStep; ++op) run(kNames[op]);
  EXPECT_EQ(cursor_.windows(), 1u);
  EXPECT_EQ(cursor_.misses(), 1u);
}

// Nothing but names tells where the program is.
TEST_F(LayersTest, OfOtherSizesAreFoundFurtherOnByTheirNames) {
  run_plan(0, kLayer);
  for (std::uint32_t op = kHead; op < kHead + 3; ++op) EXPECT_FALSE(run(kNames[op], kOtherSize)) << op;
  for (std::uint32_t op = kHead + 3; op <= kStep; ++op) EXPECT_TRUE(run(kNames[op], kOtherSize)) << op;
  EXPECT_EQ(cursor_.windows(), 1u);
  EXPECT_EQ(cursor_.misses(), 3u);
  EXPECT_EQ(cursor_.resized_ops(), kStep - kHead - 2);
}

TEST_F(LayersTest, OfOtherSizesArePassedByWhereThereIsOneMore) {
  run_plan(0, kLayer);
  for (std::uint32_t op = 0; op < kLayer; ++op) EXPECT_TRUE(run(kNames[op], kOtherSize)) << op;
  for (std::uint32_t op = 0; op < kLayer; ++op) EXPECT_FALSE(run(kNames[op], kThirdSize)) << op;
  run_plan(kHead, kStep + 1);
  EXPECT_EQ(cursor_.misses(), kLayer);
}

TEST_F(LayersTest, BeginAgainWhereTheRestIsLeftOut) {
  run_plan(0, kStep);
  run(kNames[0]);
  run_plan(1, kStep + 1);
  EXPECT_EQ(cursor_.windows(), 2u);
}

}  // namespace
}  // namespace tensorpager::follow
