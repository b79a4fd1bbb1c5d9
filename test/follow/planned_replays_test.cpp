#include "tensorpager/follow/planned_replays.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorpager::follow {
namespace {

using namespace base;

constexpr StorageId kRebuilt{1};

/// Ops make, other, use; `make` runs again before `use`.
trace::Trace trace_of_three() {
  return {.storages = {{.bytes = 64_KiB, .entry = true}, {.bytes = 64_KiB}},
          .ops = {{.name = "make", .reads = {StorageId{0}}, .births = {kRebuilt}, .purity = trace::Purity::kPure},
                  {.name = "other", .reads = {StorageId{0}}},
                  {.name = "use", .reads = {kRebuilt}, .deaths = {kRebuilt}}}};
}

PlannedReplays replays_of(std::vector<plan::Replay> replays) {
  const trace::Trace trace = trace_of_three();
  const Plan plan{.ops = static_cast<std::uint32_t>(3 + replays.size()), .replays = replays};
  return {plan, plan::rewrite(trace, plan.replays).value()};
}

TEST(PlannedReplays, SayWhichOpIsAReplayAndOfWhat) {
  const PlannedReplays replays = replays_of({{.op = 0, .before = 2, .keeps = {kRebuilt}}});
  EXPECT_TRUE(replays.any());
  for (const std::uint32_t op : {0U, 1U, 3U}) EXPECT_FALSE(replays.is_replay(op)) << op;
  ASSERT_TRUE(replays.is_replay(2));
  EXPECT_TRUE(replays.is_first(2));
  EXPECT_EQ(replays.replayed_by(2), 0u);
  EXPECT_EQ(replays.behind(2), 3u);
  EXPECT_EQ(replays.behind(1), 1u);
  EXPECT_TRUE(replays.is_replayed_later(0));
  EXPECT_FALSE(replays.is_replayed_later(1));
}

TEST(PlannedReplays, SayWhereTheOpsOfTheProgramAre) {
  const PlannedReplays replays = replays_of({{.op = 0, .before = 2, .keeps = {kRebuilt}}});
  const std::vector<std::uint32_t> at(replays.program_ops().begin(), replays.program_ops().end());
  EXPECT_EQ(at, (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST(PlannedReplays, SayWhatTheyKeepOfWhatTheOpMakes) {
  const std::vector<StorageId> made{StorageId{0}, kRebuilt};
  EXPECT_EQ(replays_of({{.op = 0, .before = 2, .keeps = {kRebuilt}}}).kept_by(2, made), std::vector{1U});
}

TEST(PlannedReplays, AreNoneInAPlanThatOnlyPages) {
  const PlannedReplays replays = replays_of({});
  EXPECT_FALSE(replays.any());
  EXPECT_FALSE(replays.is_replay(2));
  EXPECT_EQ(replays.program_ops().size(), 3u);
}

}  // namespace
}  // namespace tensorpager::follow
