#include "tensorpager/plan/rewriting.h"

#include <gtest/gtest.h>

#include <random>

#include "../random_cases.h"
#include "synthetic_traces.h"
#include "trace_values.h"

namespace tensorpager::plan {
namespace {

using trace::index;
using trace::Purity;
using trace::StorageId;
using trace::Trace;

/// linear makes 1 from 0, relu makes 2 from 1 in the trace's window, loss uses 2, backward uses 1 and 2.
Trace small_trace() {
  Trace trace{.granule = base::Bytes(512)};
  trace.storages = {{.bytes = base::Bytes(20'000), .entry = true},
                    {.bytes = base::Bytes(30'000)},
                    {.bytes = base::Bytes(40'000)},
                    {.bytes = base::Bytes(50'000)}};
  trace.ops = {
      {.name = "linear", .reads = {storage(0)}, .births = {storage(1)}, .purity = Purity::kPure},
      {.name = "relu", .reads = {storage(1)}, .births = {storage(2)}, .purity = Purity::kPure},
      {.name = "loss", .reads = {storage(2)}, .births = {storage(3)}},
      {.name = "backward", .reads = {storage(1), storage(2)}, .writes = {storage(3)}},
      {.name = "update", .reads = {storage(3)}, .writes = {storage(0)}, .deaths = {storage(1), storage(2), storage(3)}},
  };
  trace::check(trace);
  return trace;
}

std::string why_not(const Trace& trace, const std::vector<Replay>& replays) {
  const auto done = rewrite(trace, replays);
  return done ? "" : done.error().what;
}

TEST(Rewriting, LeavesATraceWithoutReplaysAsItIs) {
  const Trace trace = small_trace();
  const Rewriting same = rewrite(trace, {}).value();
  ASSERT_EQ(same.trace.ops.size(), trace.ops.size());
  EXPECT_EQ(same.trace.storages.size(), trace.storages.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    EXPECT_EQ(same.trace.ops[i].reads, trace.ops[i].reads);
    EXPECT_EQ(same.trace.ops[i].deaths, trace.ops[i].deaths);
  }
}

TEST(Rewriting, DropsAStorageAfterItsLastUseAndGivesTheRebuiltOneANumberOfItsOwn) {
  const Rewriting done =
      rewrite(small_trace(), std::vector<Replay>{{.op = 1, .before = 3, .keeps = {storage(2)}}}).value();
  ASSERT_EQ(done.trace.ops.size(), 6u);
  EXPECT_EQ(done.trace.ops[2].deaths, std::vector{storage(2)});
  EXPECT_EQ(done.trace.ops[3].name, "relu");
  EXPECT_TRUE(done.entries[3].replayed);
  EXPECT_EQ(done.entries[3].op, 1u);
  EXPECT_EQ(done.trace.ops[3].births, std::vector{storage(4)});
  EXPECT_EQ(done.trace.ops[3].rebuilds, 1u);
  EXPECT_EQ(done.storages[4], storage(2));
  EXPECT_EQ(done.trace.ops[4].reads, (std::vector{storage(1), storage(4)}));
  EXPECT_EQ(done.trace.ops[5].deaths, (std::vector{storage(1), storage(4), storage(3)}));
  EXPECT_NO_THROW(trace::check(done.trace));
}

// 1 is made again for `loss`, and dies there with the copy that was made.
TEST(Rewriting, KeepsNoCopyWhosePlaceAnotherHasTaken) {
  Trace trace = small_trace();
  trace.ops[2].reads.push_back(storage(1));
  trace.ops[2].deaths = {storage(1)};
  trace.ops[3].reads = {storage(2)};
  std::erase(trace.ops[4].deaths, storage(1));
  trace::check(trace);
  std::vector<Replay> replays{{.op = 0, .before = 2, .keeps = {storage(1)}},
                              {.op = 1, .before = 4, .keeps = {storage(2)}}};
  EXPECT_EQ(why_not(trace, replays), "storage 1, which it reads, is not there as it was");
  replays.insert(replays.begin() + 1, {.op = 0, .before = 4, .keeps = {storage(1)}});
  EXPECT_EQ(why_not(trace, replays), "");
}

TEST(Rewriting, CountsWhatAReplayMakesAndDoesNotKeepAsTemporary) {
  const Trace trace = small_trace();
  const Rewriting done = rewrite(trace, std::vector<Replay>{{.op = 1, .before = 3}}).value();
  EXPECT_TRUE(done.trace.ops[3].births.empty());
  EXPECT_EQ(done.trace.ops[3].temporary, base::round_up(trace.storages[2].bytes, trace.granule));
  EXPECT_EQ(done.trace.storages.size(), trace.storages.size());
  EXPECT_EQ(done.trace.ops[4].reads, (std::vector{storage(1), storage(2)}));
}

TEST(Rewriting, RebuildsInPlaceChainsBesideTheStorage) {
  Trace trace = small_trace();
  trace.ops[1] = {.name = "relu_", .writes = {storage(1)}, .purity = Purity::kPure};
  trace.ops[2].reads = {storage(1)};
  trace.ops[2].births.push_back(storage(2));
  trace::check(trace);
  const Rewriting done =
      rewrite(trace, std::vector<Replay>{{.op = 0, .before = 3, .keeps = {storage(1)}}, {.op = 1, .before = 3}})
          .value();
  EXPECT_EQ(done.trace.ops[2].deaths, std::vector{storage(1)});
  EXPECT_EQ(done.trace.ops[4].writes, std::vector{storage(4)});
  EXPECT_EQ(done.trace.ops[5].reads, (std::vector{storage(4), storage(2)}));
  // The chain's first op alone makes an older version, which nothing uses.
  const Rewriting half = rewrite(trace, std::vector<Replay>{{.op = 0, .before = 3, .keeps = {storage(1)}}}).value();
  EXPECT_EQ(half.trace.ops[3].deaths, std::vector{storage(4)});
  EXPECT_EQ(half.trace.ops[4].reads, (std::vector{storage(1), storage(2)}));
}

TEST(Rewriting, RunsBatchNormOnClonesOfItsStatistics) {
  Trace trace = small_trace();
  trace.ops[1].writes = {storage(0)};
  trace.ops[1].purity = Purity::kScratch;
  const Rewriting done = rewrite(trace, std::vector<Replay>{{.op = 1, .before = 3, .keeps = {storage(2)}}}).value();
  EXPECT_TRUE(done.trace.ops[3].writes.empty());
  EXPECT_EQ(done.trace.ops[3].temporary, base::round_up(base::Bytes(20'000), base::Bytes(512)));
}

TEST(Rewriting, MakesAnewWhatAnOpFills) {
  Trace trace = small_trace();
  // Storage 2 is created by an op that nobody may run again, filled by another, and scaled in place.
  trace.ops[1].purity = Purity::kNever;
  const trace::Op draw{.name = "draw", .writes = {storage(2)}, .purity = Purity::kFills};
  const trace::Op scale{.name = "scale", .reads = {storage(2)}, .writes = {storage(2)}, .purity = Purity::kPure};
  trace.ops.insert(trace.ops.begin() + 2, {draw, scale});
  trace::check(trace);
  const std::vector<Replay> replays = {{.op = 2, .before = 5, .keeps = {storage(2)}}, {.op = 3, .before = 5}};
  const Rewriting done = rewrite(trace, replays).value();
  EXPECT_TRUE(done.trace.ops[5].writes.empty());
  ASSERT_EQ(done.trace.ops[5].births.size(), 1u);
  EXPECT_EQ(done.trace.ops[6].writes, done.trace.ops[5].births);
  EXPECT_EQ(values(done.trace, done.entries, done.storages), values(trace));
  // What it is not to keep is temporary.
  const Rewriting aside = rewrite(trace, std::vector<Replay>{{.op = 2, .before = 5}}).value();
  EXPECT_EQ(aside.trace.ops[5].temporary, base::Bytes(40'448));
  EXPECT_TRUE(aside.trace.ops[5].births.empty());
  trace.ops[2].reads = {storage(2)};
  EXPECT_EQ(why_not(trace, replays), "it keeps storage 2, which it does not make");
}

TEST(Rewriting, SaysWhichReplayIsNotPossibleAndWhy) {
  const Trace trace = small_trace();
  EXPECT_EQ(why_not(trace, {{.op = 1, .before = 1}}), "it is to run before the op that it replays");
  EXPECT_EQ(why_not(trace, {{.op = 1, .before = 3}, {.op = 0, .before = 2}}), "it is out of order");
  EXPECT_EQ(why_not(trace, {{.op = 1, .before = 9}}), "it is to run before no op of the window");
  EXPECT_EQ(why_not(trace, {{.op = 2, .before = 3}}), "op 2 (loss) is not pure");
  EXPECT_EQ(why_not(trace, {{.op = 1, .before = 3, .keeps = {storage(1)}}}),
            "it keeps storage 1, which it does not make");
  Trace writes = trace;
  writes.ops[1].writes = {storage(0)};
  EXPECT_EQ(why_not(writes, {{.op = 1, .before = 3}}), "it writes storage 0, which lives over the window's end");
  EXPECT_EQ(why_not(writes, {{.op = 0, .before = 3}}), "storage 0, which it reads, is not there as it was");
  Trace dead = trace;
  dead.ops[3].reads = {storage(2)};
  dead.ops[4].deaths = {storage(2), storage(3)};
  dead.ops[1].deaths = {storage(1)};
  trace::check(dead);
  EXPECT_EQ(why_not(dead, {{.op = 1, .before = 3, .keeps = {storage(2)}}}),
            "storage 1, which it reads, is not there as it was");
  EXPECT_EQ(
      why_not(dead, {{.op = 0, .before = 3, .keeps = {storage(1)}}, {.op = 1, .before = 3, .keeps = {storage(2)}}}),
      "");
}

// Whatever is legal computes what the program computes, to the last op, and follows a trace's rules.
TEST(Rewriting, ChangesNoValueOfRandomTraces) {
  constexpr unsigned kSeeds = random_cases(2000, 200);
  std::size_t replayed = 0;
  std::size_t refused = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trace trace = with_pure_ops(random_trace(seed), seed);
    std::mt19937 random(seed);
    std::vector<Replay> replays;
    for (int i = 0; i < 40; ++i) {
      const auto op = static_cast<std::uint32_t>(random() % trace.ops.size());
      Replay replay{.op = op, .before = op + static_cast<std::uint32_t>(random() % 12)};
      for (const StorageId id : trace.ops[op].births) {
        if (random() % 4 != 0) replay.keeps.push_back(id);
      }
      const auto at = std::ranges::upper_bound(replays, replay.before, {}, &Replay::before);
      const auto added = replays.insert(at, std::move(replay));
      if (!rewrite(trace, replays)) {
        replays.erase(added);
        ++refused;
      }
    }
    const Rewriting done = rewrite(trace, replays).value();
    ASSERT_EQ(done.trace.ops.size(), trace.ops.size() + replays.size());
    ASSERT_NO_THROW(trace::check(done.trace));
    ASSERT_EQ(values(done.trace, done.entries, done.storages), values(trace));
    replayed += replays.size();
  }
  EXPECT_GT(replayed, kSeeds * 3);
  EXPECT_GT(refused, kSeeds * 3);
}

}  // namespace
}  // namespace tensorpager::plan
