#include "tensorpager/planning/recomputation.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "../plan/synthetic_traces.h"
#include "../plan/trace_values.h"
#include "../random_cases.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::planning {
namespace {

using plan::rewrite;
using plan::storage;
using trace::Purity;

std::vector<Nanoseconds> unit_times(const trace::Trace& trace) {
  return std::vector<Nanoseconds>(trace.ops.size(), Nanoseconds(100));
}

Recomputation of(const trace::Trace& trace) { return {trace, Liveness(trace), unit_times(trace)}; }

/// A chain of `ops` pure ops, each of which makes a storage from the one before; then one that uses the last but one,
/// and one that uses the last.
trace::Trace chain(std::size_t ops) {
  trace::Trace trace{.granule = base::Bytes(512)};
  trace.storages.push_back({.bytes = base::Bytes(20'000), .entry = true});
  for (std::size_t i = 0; i < ops; ++i) {
    trace.storages.push_back({.bytes = base::Bytes(20'000)});
    trace.ops.push_back({.name = "next", .reads = {storage(i)}, .births = {storage(i + 1)}, .purity = Purity::kPure});
  }
  for (int i = 0; i < 6; ++i) trace.ops.push_back({.name = "other", .reads = {storage(0)}});
  trace.ops.push_back({.name = "use", .reads = {storage(ops - 1)}});
  trace.ops.push_back({.name = "use", .reads = {storage(ops)}});
  for (std::size_t i = 1; i <= ops; ++i) trace.ops.back().deaths.push_back(storage(i));
  trace::check(trace);
  return trace;
}

TEST(Recomputation, RebuildsAChainFromWhatIsThere) {
  const trace::Trace trace = chain(3);
  const Recomputation recomputation = of(trace);
  // Storages 2 and 3 are used again, by ops 9 and 10; 1 is not.
  ASSERT_EQ(recomputation.droppable().size(), 2u);
  EXPECT_EQ(recomputation.droppable()[0].storage, storage(2));
  EXPECT_EQ(recomputation.droppable()[1].storage, storage(3));
  EXPECT_EQ(recomputation.droppable()[1].cost, Nanoseconds(100));
  const auto last = recomputation.replays({Drop::kKept, Drop::kOnce}, 100, Arguments::kFreed);
  EXPECT_EQ(*last, (std::vector<Replay>{{.op = 2, .before = 10, .keeps = {storage(3)}}}));
  const auto both = recomputation.replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kFreed);
  EXPECT_EQ(*both, (std::vector<Replay>{{.op = 1, .before = 9, .keeps = {storage(2)}},
                                        {.op = 2, .before = 10, .keeps = {storage(3)}}}));
  EXPECT_EQ(recomputation.replays({Drop::kOnce, Drop::kOnce}, 1, Arguments::kFreed), std::nullopt);
}

TEST(Recomputation, RebuildsDeadArgumentsToo) {
  trace::Trace trace = chain(3);
  trace.ops[1].deaths = {storage(1)};
  std::erase(trace.ops.back().deaths, storage(1));
  trace::check(trace);
  const auto replays = of(trace).replays({Drop::kOnce, Drop::kKept}, 100, Arguments::kFreed);
  EXPECT_EQ(*replays, (std::vector<Replay>{{.op = 0, .before = 9, .keeps = {storage(1)}},
                                           {.op = 1, .before = 9, .keeps = {storage(2)}}}));
}

// Scores of two steps are made from keys that are dead when they are needed again.
TEST(Recomputation, RebuildsAnArgumentOfSeveralReplaysOnceIfItIsKept) {
  trace::Trace trace{.granule = base::Bytes(512)};
  trace.storages.push_back({.bytes = base::Bytes(20'000), .entry = true});
  for (int i = 0; i < 3; ++i) trace.storages.push_back({.bytes = base::Bytes(20'000)});
  const trace::StorageId entry = storage(0), keys = storage(1), first = storage(2), second = storage(3);
  trace.ops.push_back({.name = "keys", .reads = {entry}, .births = {keys}, .purity = Purity::kPure});
  trace.ops.push_back({.name = "score", .reads = {keys}, .births = {first}, .purity = Purity::kPure});
  trace.ops.push_back(
      {.name = "score", .reads = {keys}, .births = {second}, .deaths = {keys}, .purity = Purity::kPure});
  for (int i = 0; i < 6; ++i) trace.ops.push_back({.name = "other", .reads = {entry}});
  trace.ops.push_back({.name = "use", .reads = {second}, .deaths = {second}});
  trace.ops.push_back({.name = "use", .reads = {first}, .deaths = {first}});
  trace::check(trace);
  const Recomputation recomputation = of(trace);
  ASSERT_EQ(recomputation.droppable().size(), 2u);
  EXPECT_EQ(recomputation.droppable()[0].cost, Nanoseconds(200));
  EXPECT_EQ(recomputation.droppable()[0].shared, Nanoseconds(150));
  const std::vector<Replay> once = {{.op = 0, .before = 9, .keeps = {keys}},
                                    {.op = 2, .before = 9, .keeps = {second}},
                                    {.op = 1, .before = 10, .keeps = {first}}};
  std::vector<Replay> twice = once;
  twice.insert(twice.begin() + 2, {.op = 0, .before = 10, .keeps = {keys}});
  EXPECT_EQ(recomputation.replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kFreed), twice);
  EXPECT_EQ(recomputation.replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kKeptForMore), once);
  const auto done = rewrite(trace, once);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(plan::values(done->trace, done->entries, done->storages), plan::values(trace));
}

// Keys that were rebuilt for the program die with it.
TEST(Recomputation, RebuildsADeadArgumentAgainThatWasRebuiltForTheProgram) {
  trace::Trace trace{.granule = base::Bytes(512)};
  trace.storages = {
      {.bytes = base::Bytes(20'000), .entry = true}, {.bytes = base::Bytes(20'000)}, {.bytes = base::Bytes(20'000)}};
  const trace::StorageId entry = storage(0), keys = storage(1), score = storage(2);
  trace.ops.push_back({.name = "keys", .reads = {entry}, .births = {keys}, .purity = Purity::kPure});
  trace.ops.push_back({.name = "score", .reads = {keys}, .births = {score}, .purity = Purity::kPure});
  for (int i = 0; i < 6; ++i) trace.ops.push_back({.name = "other", .reads = {entry}});
  trace.ops.push_back({.name = "use", .reads = {keys}, .deaths = {keys}});
  trace.ops.push_back({.name = "use", .reads = {score}, .deaths = {score}});
  trace::check(trace);
  const auto replays = of(trace).replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kKeptForMore);
  EXPECT_EQ(*replays, (std::vector<Replay>{{.op = 0, .before = 8, .keeps = {keys}},
                                           {.op = 0, .before = 9, .keeps = {keys}},
                                           {.op = 1, .before = 9, .keeps = {score}}}));
  EXPECT_TRUE(rewrite(trace, *replays));
}

// Of two storages that are dropped the first is an argument of the second, and is needed after it.
TEST(Recomputation, RebuildsAnArgumentAgainForTheProgramIfItIsNotToStay) {
  trace::Trace trace = chain(3);
  const auto last = trace.ops.end() - 1;
  std::swap(last->reads, (last - 1)->reads);
  const Recomputation recomputation = of(trace);
  ASSERT_EQ(recomputation.droppable().size(), 2u);
  ASSERT_EQ(recomputation.droppable()[1].storage, storage(2));
  const std::vector<Replay> once = {{.op = 1, .before = 9, .keeps = {storage(2)}},
                                    {.op = 2, .before = 9, .keeps = {storage(3)}}};
  std::vector<Replay> again = once;
  again.push_back({.op = 1, .before = 10, .keeps = {storage(2)}});
  EXPECT_EQ(recomputation.replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kFreed), once);
  EXPECT_EQ(recomputation.replays({Drop::kOnce, Drop::kAgain}, 100, Arguments::kFreed), again);
  const auto done = rewrite(trace, again);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(plan::values(done->trace, done->entries, done->storages), plan::values(trace));
  // It is not there from the replay that needs it on, but for as long as that runs.
  EXPECT_EQ(done->trace.ops[10].deaths, std::vector{storage(4)});
}

TEST(Recomputation, RebuildsWhatIsDroppedAgainAlthoughArgumentsAreKept) {
  trace::Trace trace{.granule = base::Bytes(512)};
  trace.storages = {{.bytes = base::Bytes(20'000), .entry = true}, {.bytes = base::Bytes(20'000)}};
  const trace::StorageId entry = storage(0), made = storage(1);
  trace.ops.push_back({.name = "make", .reads = {entry}, .births = {made}, .purity = Purity::kPure});
  for (int use = 0; use < 2; ++use) {
    for (int i = 0; i < 6; ++i) trace.ops.push_back({.name = "other", .reads = {entry}});
    trace.ops.push_back({.name = "use", .reads = {made}});
  }
  trace.ops.back().deaths = {made};
  trace::check(trace);
  EXPECT_EQ(of(trace).replays({Drop::kOnce, Drop::kOnce}, 100, Arguments::kKeptForMore),
            (std::vector<Replay>{{.op = 0, .before = 7, .keeps = {made}}, {.op = 0, .before = 14, .keeps = {made}}}));
}

TEST(Recomputation, DropsNothingWhoseArgumentsAreWrittenOrWhoseOpsAreNotPure) {
  // Storage 2 is made from 1, which stays.
  trace::Trace written = chain(2);
  written.ops[4].writes = {storage(0)};
  ASSERT_EQ(of(written).droppable().size(), 1u);
  EXPECT_EQ(of(written).droppable()[0].storage, storage(2));
  trace::Trace unknown = chain(2);
  unknown.ops[0].purity = Purity::kNever;
  ASSERT_EQ(of(unknown).droppable().size(), 1u);
  EXPECT_EQ(of(unknown).droppable()[0].storage, storage(2));
  unknown.ops[1].purity = Purity::kNever;
  EXPECT_TRUE(of(unknown).droppable().empty());
}

TEST(Recomputation, RebuildsFromTheLastOpThatFills) {
  trace::Trace trace = chain(2);
  trace.ops[0].purity = Purity::kNever;
  trace.ops.insert(trace.ops.begin() + 1,
                   {.name = "draw", .reads = {storage(0)}, .writes = {storage(1)}, .purity = Purity::kFills});
  trace.ops.insert(trace.ops.begin() + 2, {.name = "scale", .writes = {storage(1)}, .purity = Purity::kPure});
  trace::check(trace);
  const Recomputation recomputation = of(trace);
  const auto gap = std::ranges::find(recomputation.droppable(), storage(1), &Droppable::storage);
  ASSERT_NE(gap, recomputation.droppable().end());
  std::vector<Drop> dropped(recomputation.droppable().size());
  dropped[static_cast<std::size_t>(gap - recomputation.droppable().begin())] = Drop::kOnce;
  EXPECT_EQ(recomputation.replays(dropped, 100, Arguments::kFreed),
            (std::vector<Replay>{{.op = 1, .before = gap->to, .keeps = {storage(1)}},
                                 {.op = 2, .before = gap->to, .keeps = {}}}));
}

TEST(Recomputation, DropsNothingThatTakesMoreThanAFewReplaysHoweverLongTheWindowIs) {
  trace::Trace trace = chain(200'000);
  for (std::size_t i = 1; i + 1 < 200'000; ++i) trace.ops[i + 1].deaths = {storage(i)};
  std::erase_if(trace.ops.back().deaths, [](trace::StorageId id) { return trace::index(id) + 1 < 200'000; });
  trace::check(trace);
  // The last is made from the one before, which is there until the end; that one has the whole chain behind it.
  const Recomputation recomputation = of(trace);
  ASSERT_EQ(recomputation.droppable().size(), 1u);
  EXPECT_EQ(recomputation.droppable()[0].storage, storage(200'000));
}

// Whatever is dropped, the replays are possible, and the window computes what it computed.
TEST(Recomputation, ChangesNoValueOfRandomTracesWhateverIsDropped) {
  constexpr unsigned kTraces = random_cases(3000, 300);
  std::size_t replayed = 0, spared = 0;
  for (unsigned seed = 1; seed <= kTraces; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace trace = plan::with_pure_ops(plan::random_trace(seed), seed);
    const Recomputation recomputation = of(trace);
    std::mt19937 random(seed);
    std::vector<Drop> dropped(recomputation.droppable().size());
    for (Drop& each : dropped) each = std::array{Drop::kKept, Drop::kOnce, Drop::kAgain}[random() % 3];
    std::size_t count[2] = {};
    for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore}) {
      const auto replays = recomputation.replays(dropped, 100'000, arguments);
      ASSERT_TRUE(replays);
      const auto done = rewrite(trace, *replays);
      ASSERT_TRUE(done) << done.error().what;
      ASSERT_NO_THROW(trace::check(done->trace));
      ASSERT_EQ(plan::values(done->trace, done->entries, done->storages), plan::values(trace));
      count[static_cast<std::size_t>(arguments)] = replays->size();
    }
    ASSERT_LE(count[1], count[0]);
    replayed += count[0];
    spared += count[0] - count[1];
  }
  EXPECT_GT(replayed, kTraces);
  EXPECT_GT(spared, 0u);
}

TEST(Recomputation, CanDropMostActivationsOfRealTraces) {
  for (const char* name : {"resnet50", "unet", "gpt2"}) {
    SCOPED_TRACE(name);
    const trace::Trace trace = trace::read_trace_file(std::string(TENSORPAGER_TEST_DATA "/") + name + ".trace");
    const Recomputation recomputation = of(trace);
    const std::vector<Drop> all(recomputation.droppable().size(), Drop::kOnce);
    const auto replays = recomputation.replays(all, 100'000, Arguments::kFreed);
    ASSERT_TRUE(replays);
    const auto done = rewrite(trace, *replays);
    ASSERT_TRUE(done) << done.error().what;
    EXPECT_GT(replays->size(), 40u);
    std::uint64_t bytes = 0;
    for (const Droppable& gap : recomputation.droppable()) bytes += gap.bytes;
    EXPECT_GT(bytes, Liveness(trace).need().count() / 2);
  }
}

}  // namespace
}  // namespace tensorpager::planning
