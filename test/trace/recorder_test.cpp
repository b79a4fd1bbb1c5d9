#include "tensorpager/trace/recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "tensorpager/trace/trace_io.h"
#include "tensorpager/trace/window_trace.h"

namespace tensorpager::trace {
namespace {

using namespace base;
using namespace std::chrono_literals;

/// Events as a session sends them, for blocks that are one page larger than asked for.
struct Events {
  Recorder recorder{4_KiB};
  std::uint64_t last = 0;

  std::uint64_t born(Recorder::Ticket op = 0, Bytes size = 60_KiB) {
    recorder.block_born(op, {++last, size, size + 4_KiB});
    return last;
  }
  Recorder::Ticket begin(const char* name, std::vector<Touch> touched = {}) {
    return recorder.op_begins({.name = name}, touched);
  }
  void end(Recorder::Ticket op) { recorder.op_ends(op, 1us); }
  void run(const char* name, std::vector<Touch> touched) { end(begin(name, std::move(touched))); }
};

std::vector<std::string> names(const Stream& stream) {
  std::vector<std::string> all;
  for (const StreamOp& op : stream.ops) all.emplace_back(op.facts.name);
  return all;
}

TEST(Recorder, KeepsWhatAnOpReadsWritesMakesAndFrees) {
  Events events;
  const auto weight = events.born();
  const auto op = events.begin("mm", {{weight, false}, {weight, true}, {weight, false}});
  const auto result = events.born(op, 100_KiB);
  events.end(op);
  events.recorder.block_died(0, result);
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"outside", "mm"}));
  const StreamOp& mm = stream.ops[1];
  ASSERT_EQ(mm.touched.size(), 1u);  // read and written: once, as written
  EXPECT_TRUE(mm.touched[0].written);
  EXPECT_EQ(mm.births, (std::vector<std::size_t>{1}));
  EXPECT_EQ(mm.deaths, (std::vector<std::size_t>{1}));
  EXPECT_EQ(mm.time, 1us);
  EXPECT_EQ(stream.storages[1].bytes, 100_KiB);
  EXPECT_EQ(stream.storages[1].died, 1u);
  EXPECT_EQ(stream.storages[0].died, StreamStorage::kNever);
}

TEST(Recorder, AddsWhatTheProgramDoesBetweenTwoOpsToTheFirst) {
  Events events;
  const auto weight = events.born();
  const std::vector<Touch> touched = {{weight, false}};
  events.run("mm", touched);
  const auto small = events.recorder.op_begins({.name = "size", .before = 20us}, {});
  events.end(small);
  events.end(events.recorder.op_begins({.name = "add", .before = 300us}, touched));
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"outside", "mm", "add"}));
  EXPECT_EQ(stream.ops[1].time, 322us);  // its own, the small op's, and those before that and the next
  EXPECT_EQ(stream.ops[2].time, 1us);
  EXPECT_EQ(events.recorder.op_time(), 323us);
}

// first   |--------|
// second      |--------|      the largest sum is that of first and second
// third                  |--|
TEST(Recorder, SaysWhereBetweenTemporariesAnOpMakesWhatStays) {
  Events events;
  events.born();
  const auto op = events.begin("conv");
  const auto scratch = events.born(op);
  const auto first = events.born(op);
  events.recorder.block_died(op, scratch);
  const auto packed = events.born(op);
  const auto second = events.born(op);
  events.recorder.block_died(op, packed);
  events.end(op);
  const Stream stream = events.recorder.stream();
  EXPECT_EQ(stream.ops[0].made, std::vector<std::uint32_t>{0}) << "what is born outside ops has an op of its own";
  ASSERT_EQ(stream.ops[1].births.size(), 2u);
  EXPECT_EQ(stream.storages[stream.ops[1].births[0]].block, first);
  EXPECT_EQ(stream.storages[stream.ops[1].births[1]].block, second);
  EXPECT_EQ(stream.ops[1].made, (std::vector<std::uint32_t>{1, 3}));
}

TEST(Recorder, GivesTemporariesAsTheirLargestSum) {
  Events events;
  const auto op = events.begin("convolution");
  const auto first = events.born(op, 8_KiB);
  const auto second = events.born(op, 16_KiB);
  events.recorder.block_died(op, first);
  const auto kept = events.born(op, 100_KiB);
  events.recorder.block_died(op, second);
  events.recorder.block_died(op, events.born(op, 20_KiB));
  events.end(op);
  const Stream stream = events.recorder.stream();
  EXPECT_EQ(stream.ops[0].temporary, 32_KiB);  // charged: 12 and 20
  EXPECT_EQ(stream.ops[0].births.size(), 1u);
  EXPECT_EQ(stream.storages.size(), 1u) << kept;
}

TEST(Recorder, GivesTemporariesAsThePieceTheyNeedWhereBlocksShareAnArena) {
  Events events{.recorder = Recorder(4_KiB, Recorder::kMostOps, Recorder::Temporaries::kInOnePiece)};
  const auto op = events.begin("conv");
  const auto first = events.born(op, 16_KiB);   // [0, 20)
  const auto second = events.born(op, 28_KiB);  // [20, 52)
  events.born(op, 100_KiB);                     // lives on
  events.recorder.block_died(op, first);
  const auto third = events.born(op, 12_KiB);   // [0, 16)
  const auto fourth = events.born(op, 20_KiB);  // [52, 76): the gap of 4 is too small
  for (const auto one : {second, third, fourth}) events.recorder.block_died(op, one);
  events.end(op);
  EXPECT_EQ(events.recorder.stream().ops[0].temporary, 76_KiB);
}

TEST(Recorder, WhatTheThreadsOfAKernelMakeAndFreeIsTheOps) {
  Events events;
  const auto op = events.begin("attention");
  std::thread([&] {
    const auto one = events.born(), other = events.born();
    events.recorder.block_died(0, one);
    events.recorder.block_died(0, other);
  }).join();
  const auto kept = events.born(op);
  events.end(op);
  std::thread([&] { events.born(); }).join();
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"attention", "outside"}));
  EXPECT_EQ(stream.ops[0].temporary, 128_KiB);
  ASSERT_EQ(stream.ops[0].births.size(), 1u);
  EXPECT_EQ(stream.storages[stream.ops[0].births[0]].block, kept);
}

TEST(Recorder, OfSeveralOpsUnderWayNoneIsGivenWhatAnotherThreadMakes) {
  Events events;
  const auto one = events.begin("mm");
  Recorder::Ticket other = 0;
  std::thread([&] { other = events.begin("conv"); }).join();
  std::thread([&] { events.born(); }).join();
  events.end(one);
  events.end(other);
  EXPECT_EQ(names(events.recorder.stream()).back(), "outside");
}

TEST(Recorder, WhatIsMadeBesideOpsIsTemporaryInThoseThatBeginMeanwhile) {
  Events events;
  const auto weight = events.born();
  events.run("before", {{weight, false}});
  events.run("last", {{weight, false}});
  const auto first = events.born(EventSink::kBeside), second = events.born(EventSink::kBeside, 28_KiB);
  events.recorder.block_died(0, second);
  events.run("meanwhile", {{weight, false}, {first, false}});
  events.recorder.block_died(0, first);
  events.run("after", {{weight, false}});
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"outside", "before", "last", "meanwhile", "after"}));
  EXPECT_EQ(stream.storages.size(), 1u);
  EXPECT_EQ(stream.ops[1].temporary, 0_B);
  EXPECT_EQ(stream.ops[2].temporary, 96_KiB) << "both, charged";
  EXPECT_EQ(stream.ops[3].temporary, 64_KiB);
  EXPECT_EQ(stream.ops[4].temporary, 0_B);
  EXPECT_TRUE(stream.ops[2].deaths.empty() && stream.ops[3].deaths.empty());
}

TEST(Recorder, OpInsideAnotherAddsWhatItTouchesToIt) {
  Events events;
  const auto a = events.born(), b = events.born();
  const auto op = events.begin("lstm", {{a, false}});
  events.recorder.op_touches(op, std::vector<Touch>{{b, true}, {events.born(op), false}});
  events.end(op);
  const Stream stream = events.recorder.stream();
  const StreamOp& lstm = stream.ops.back();
  ASSERT_EQ(lstm.touched.size(), 2u);  // what it made itself is none
  EXPECT_FALSE(lstm.touched[0].written);
  EXPECT_TRUE(lstm.touched[1].written);
}

TEST(Recorder, OpThatTouchesNothingIsNoneAndItsTimeGoesToTheOneBefore) {
  Events events;
  const auto a = events.born();
  events.run("sum", {{a, false}});
  events.run("item", {});
  events.run("mul", {{a, false}});
  const Stream stream = events.recorder.stream();
  EXPECT_EQ(names(stream), (std::vector<std::string>{"outside", "sum", "mul"}));
  EXPECT_EQ(stream.ops[1].time, 2us);
}

TEST(Recorder, OfADeviceTellsOfOpsOnceTheirTimesAreKnown) {
  Events events{.recorder =
                    Recorder(4_KiB, Recorder::kMostOps, Recorder::Temporaries::kApart, Recorder::Computes::kOnDevice)};
  const auto weight = events.born();
  std::vector<Recorder::Ticket> ops;
  for (const char* name : {"first", "second"}) {
    ops.push_back(events.begin(name, {{weight, false}}));
    EXPECT_EQ(events.recorder.op_ends(ops.back(), 0ns), ops.back());
  }
  events.recorder.op_timed(ops[1], 2us);
  EXPECT_EQ(names(events.recorder.stream()), (std::vector<std::string>{"outside"}));
  events.recorder.op_timed(ops[0], 1us);
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"outside", "first", "second"}));
  EXPECT_EQ(stream.ops[1].time, 1us);
  EXPECT_EQ(stream.ops[2].time, 2us);
  EXPECT_EQ(events.recorder.op_time(), 3us);
}

TEST(Recorder, OfADeviceAddsTheTimeOfAnOpThatTouchesNothingToTheOneBefore) {
  Events events{.recorder =
                    Recorder(4_KiB, Recorder::kMostOps, Recorder::Temporaries::kApart, Recorder::Computes::kOnDevice)};
  const auto weight = events.born();
  const auto op = events.begin("mm", {{weight, false}});
  events.recorder.op_ends(op, 0ns);
  const auto empty = events.begin("log");
  EXPECT_EQ(events.recorder.op_ends(empty, 0ns), op);
  events.recorder.op_timed(op, 1us);
  EXPECT_EQ(names(events.recorder.stream()), (std::vector<std::string>{"outside"})) << "the other's is to come";
  events.recorder.op_timed(op, 2us);
  const Stream stream = events.recorder.stream();
  ASSERT_EQ(names(stream), (std::vector<std::string>{"outside", "mm"}));
  EXPECT_EQ(stream.ops[1].time, 3us);
}

TEST(Recorder, OpsOfSeveralThreadsComeInTheOrderInWhichTheyBegan) {
  Events events;
  const auto a = events.born();
  const auto slow = events.begin("slow", {{a, false}});
  const auto quick = events.begin("quick", {{a, false}});
  const auto made = events.born(slow);
  events.end(quick);
  events.recorder.block_died(0, a);  // after both began
  EXPECT_EQ(names(events.recorder.stream()), (std::vector<std::string>{"outside"})) << "slow has not ended";
  events.end(slow);
  const Stream stream = events.recorder.stream();
  EXPECT_EQ(names(stream), (std::vector<std::string>{"outside", "slow", "quick"}));
  EXPECT_EQ(stream.ops[1].births.size(), 1u) << made;
  EXPECT_EQ(stream.ops[2].deaths, (std::vector<std::size_t>{0}));
}

TEST(Recorder, KeepsTheLastOpsAndWhatWasAliveBeforeThem) {
  Events events;
  Recorder recorder(4_KiB, 100);
  recorder.block_born(0, {1, 60_KiB, 60_KiB});
  recorder.block_born(0, {2, 40_KiB, 40_KiB});
  recorder.block_died(0, 2);
  const std::vector<Touch> touched{{1, false}};
  for (int i = 0; i < 1000; ++i) recorder.op_ends(recorder.op_begins({.name = "sum"}, touched), 1us);
  const Stream stream = recorder.stream();
  EXPECT_GE(stream.ops.size(), 100u);
  EXPECT_LE(stream.ops.size(), 200u);
  ASSERT_EQ(stream.storages.size(), 1u);
  EXPECT_EQ(stream.storages[0].bytes, 60_KiB);
  EXPECT_EQ(stream.storages[0].born, StreamStorage::kBefore);
}

TEST(Recorder, TellsWhichOpsBelongToAnOptimizersStep) {
  Events events;
  const auto a = events.born();
  for (int step = 0; step < 2; ++step) {
    events.run("forward", {{a, false}});
    events.recorder.hint(Hint::kOptimizerBegins);
    events.run("update", {{a, true}});
    events.recorder.hint(Hint::kOptimizerEnds);
    events.recorder.hint(Hint::kStepEnds);
  }
  const Stream stream = events.recorder.stream();
  std::vector<std::uint32_t> steps, marks;
  for (const StreamOp& op : stream.ops) steps.push_back(op.optimizer_step), marks.push_back(op.steps_before);
  EXPECT_EQ(steps, (std::vector<std::uint32_t>{0, 0, 1, 0, 2}));
  EXPECT_EQ(marks, (std::vector<std::uint32_t>{0, 0, 0, 1, 1}));
}

TEST(Recorder, ThreadsAtOnceLoseNothing) {
  Recorder recorder(4_KiB);
  constexpr std::uint64_t kOps = 2000;
  const auto work = [&](std::uint64_t first) {
    for (std::uint64_t i = first; i < first + kOps; ++i) {
      const auto op = recorder.op_begins({.name = "add"}, {});
      recorder.block_born(op, {i, 60_KiB, 60_KiB});
      recorder.op_ends(op, 1us);
      recorder.block_died(0, i);
    }
  };
  std::thread other(work, kOps + 1);
  work(1);
  other.join();
  const Stream stream = recorder.stream();
  EXPECT_EQ(stream.storages.size(), 2 * kOps);
  for (const StreamStorage& storage : stream.storages) EXPECT_NE(storage.died, StreamStorage::kNever);
}

}  // namespace
}  // namespace tensorpager::trace
