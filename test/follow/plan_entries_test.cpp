// Which blocks are a plan's storages that are alive between windows, where other classes' windows came between.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "sized_block.h"
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using namespace pager;
using namespace plan;
namespace {

using namespace base;
using plan::StorageId;

constexpr StorageId kBatch{0};
constexpr StorageId kNext{1};  // the new batch, until the old one dies
constexpr StorageId kOther{2};

/// As a loop over batches has it: `load` makes the next one, and the variable holds the old one until after that.
std::shared_ptr<const follow::Agenda> loop_over_batches() {
  const trace::Trace trace{
      .storages = {{.bytes = kSize, .entry = true}, {.bytes = kSize}, {.bytes = kOtherSize, .entry = true}},
      .ops = {{.name = "load", .births = {kNext}},
              {.name = "step", .reads = {kNext}, .writes = {kBatch}, .deaths = {kNext}}}};
  return std::make_shared<const follow::Agenda>(trace, plan::Plan{.budget = 1_MiB, .ops = 2});
}

void begin(PlanCursor& cursor, std::uint32_t op) {
  std::vector<Action> actions;
  ASSERT_TRUE(cursor.begin_op(cursor.agenda().signature(op), {}, actions));
}

void end(PlanCursor& cursor) {
  std::vector<Action> actions;
  cursor.end_op(actions);
}

TEST(PlanEntries, WhatTheTraceHasDeadAndLivesOnIsTheUnknownStorageThatTheOpWrites) {
  PlanCursor cursor(loop_over_batches());
  SizedBlock made(kSize);
  begin(cursor, 0);
  cursor.created(made);
  end(cursor);
  begin(cursor, 1);
  end(cursor);
  EXPECT_EQ(cursor.block_of(kNext), &made);
  begin(cursor, 0);
  EXPECT_EQ(cursor.block_of(kBatch), &made);
  EXPECT_EQ(cursor.block_of(kNext), nullptr);
}

/// Both states of a recurrent net, say, are made anew and of one size: the trace's order of writes tells them apart.
TEST(PlanEntries, OfSeveralThatAreContinuedTheTraceSaysWhichIsWhich) {
  constexpr StorageId kHidden{0}, kCell{1}, kNewHidden{2}, kNewCell{3};
  const trace::Trace trace{.storages = {{.bytes = kSize, .entry = true},
                                        {.bytes = kSize, .entry = true},
                                        {.bytes = kSize},
                                        {.bytes = kSize}},
                           .ops = {{.name = "lstm", .births = {kNewHidden, kNewCell}},
                                   {.name = "detach", .writes = {kCell, kHidden}, .deaths = {kNewHidden, kNewCell}}}};
  PlanCursor cursor(std::make_shared<const follow::Agenda>(trace, plan::Plan{.budget = 1_MiB, .ops = 2}));
  SizedBlock hidden(kSize), cell(kSize), new_hidden(kSize), new_cell(kSize);
  cursor.bind(kHidden, hidden);
  cursor.bind(kCell, cell);
  begin(cursor, 0);
  cursor.created(new_hidden);
  cursor.created(new_cell);
  end(cursor);
  begin(cursor, 1);
  end(cursor);
  cursor.died(hidden);
  cursor.died(cell);
  begin(cursor, 0);
  EXPECT_EQ(cursor.block_of(kCell), &new_hidden);
  EXPECT_EQ(cursor.block_of(kHidden), &new_cell);
}

TEST(PlanEntries, ABlockIsOneStorage) {
  PlanCursor cursor(loop_over_batches());
  SizedBlock block(kSize);
  cursor.bind(kBatch, block);
  cursor.bind(kNext, block);
  EXPECT_EQ(cursor.block_of(kBatch), nullptr);
  cursor.died(block);
  EXPECT_EQ(cursor.block_of(kNext), nullptr);
}

TEST(PlanEntries, AreTakenFromTheClassWhoseWindowCameBefore) {
  PlanCursor before(loop_over_batches()), cursor(loop_over_batches());
  SizedBlock batch(kSize), other(kOtherSize), newer(kOtherSize);
  before.bind(kBatch, batch);
  before.bind(kOther, newer);
  cursor.bind(kOther, other);
  cursor.enter(0, before);
  EXPECT_EQ(cursor.block_of(kBatch), &batch);
  EXPECT_EQ(cursor.block_of(kOther), &other) << "it is known";
}

TEST(PlanEntries, AreWhatTheOpUsesInsteadOfThem) {
  const trace::Trace trace{.storages = {{.bytes = kSize, .entry = true}, {.bytes = kOtherSize, .entry = true}},
                           .ops = {{.name = "step", .reads = {StorageId{0}, StorageId{1}}}}};
  const auto stays = [](StorageId id, Bytes bytes) {
    return plan::Row{
        .storage = id, .bytes = bytes, .end = 1, .fill = plan::Fill::kBoundary, .leave = plan::Leave::kBoundary};
  };
  const plan::Plan plan{
      .budget = 1_MiB, .ops = 1, .rows = {stays(StorageId{0}, kSize), stays(StorageId{1}, kOtherSize)}};
  PlanCursor cursor(std::make_shared<const follow::Agenda>(trace, plan));
  SizedBlock old(kSize), renewed(kSize), other(kOtherSize);
  old.number = 7;
  cursor.bind(StorageId{0}, old);
  cursor.bind(StorageId{1}, other);
  const auto use = [&](const std::vector<Block*>& touched) {
    std::vector<Action> actions;
    EXPECT_TRUE(cursor.begin_op(cursor.agenda().signature(0), touched, actions));
    end(cursor);
    return actions;
  };
  use({&old, &other});
  EXPECT_TRUE(use({&old, &other}).empty());
  EXPECT_TRUE(use({&other}).empty()) << "it is an op within the op that uses the other";
  const std::vector<Action> actions = use({&renewed, &other});
  EXPECT_EQ(cursor.block_of(StorageId{0}), &renewed);
  EXPECT_EQ(cursor.block_of(StorageId{1}), &other);
  EXPECT_EQ(cursor.replaced(), std::vector<Block*>{&old});
  ASSERT_GE(actions.size(), 2u);
  EXPECT_EQ(actions[0].kind, Action::Kind::kPageOut);
  EXPECT_EQ(actions[0].block, &old);
  EXPECT_EQ(actions[1].kind, Action::Kind::kAwaitQueued);
  EXPECT_EQ(actions[1].number, 7u);
}

/// Gradients, say, that one class makes and the other uses; it lists them in another order.
std::shared_ptr<const follow::Agenda> with_entries(std::vector<std::optional<std::uint64_t>> identities) {
  trace::Trace trace{.ops = {{.name = "step"}}};
  for (const auto& identity : identities)
    trace.storages.push_back({.bytes = kSize, .entry = true, .identity = identity});
  return std::make_shared<const follow::Agenda>(trace, plan::Plan{.budget = 1_MiB, .ops = 1});
}

TEST(PlanEntries, AreFirstThoseOfTheSameIdentity) {
  PlanCursor before(with_entries({7, std::nullopt, 9})), cursor(with_entries({std::nullopt, 9, 7}));
  SizedBlock seven(kSize), unnamed(kSize), nine(kSize);
  before.bind(StorageId{0}, seven);
  before.bind(StorageId{1}, unnamed);
  before.bind(StorageId{2}, nine);
  cursor.enter(0, before);
  EXPECT_EQ(cursor.block_of(StorageId{0}), &unnamed);
  EXPECT_EQ(cursor.block_of(StorageId{1}), &nine);
  EXPECT_EQ(cursor.block_of(StorageId{2}), &seven);
}

}  // namespace
}  // namespace tensorpager::follow
