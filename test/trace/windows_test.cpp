#include "tensorpager/trace/windows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "step_program.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::trace {
namespace {

using namespace base;
using Classes = std::vector<std::string>;

/// Five steps of four micro-steps.
void accumulate(StepProgram& program) {
  for (int i = 0; i < 5; ++i) {
    program.zero_grad();
    for (int micro = 0; micro < 4; ++micro) program.load(), program.forward(), program.backward();
    program.step();
  }
}

TEST(Windows, TrainingStepIsOneFromTheSecondOn) {
  StepProgram program;
  program.train(6);
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].trace.ops.size(), kStep);
  EXPECT_GE(classes[0].windows.size(), 4u);  // the first makes the optimizer's state
  EXPECT_NO_THROW(check(classes[0].trace));
}

TEST(Windows, NeedNoHintsOfTheOptimizer) {
  StepProgram program;
  for (int i = 0; i < 6; ++i)
    program.load(), program.zero_grad(), program.forward(), program.backward(), program.step(false);
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].trace.ops.size(), kStep);
  EXPECT_GE(classes[0].windows.size(), 4u);
}

TEST(Windows, AccumulationHasAWindowForEachMicroStep) {
  StepProgram program;
  accumulate(program);
  // Gradients are dead between the optimizer and the first backward pass, so that these two are in one window.
  EXPECT_EQ(program.classes(), (Classes{"11 x 19", "3 x 31", "1 x 37"}));
}

TEST(Windows, HaveTheSlabsThatThereAreAtTheEnd) {
  StepProgram program;
  accumulate(program);
  Stream stream = program.recorder.stream();
  stream.ops.back().slab = Bytes(1 << 17);
  const auto classes = classify_windows(stream);
  ASSERT_EQ(classes.size(), 3u);
  for (const WindowClass& one : classes) EXPECT_EQ(one.trace.slab, Bytes(1 << 17));
}

TEST(Windows, OptimizersThatStepInTheBackwardPassAreWithinTheWindow) {
  StepProgram program;
  for (int i = 0; i < 6; ++i) program.load(), program.forward(), program.step_in_backward(StepProgram::Rate::kStays);
  const Stream stream = program.recorder.stream();
  const std::vector<Span> windows = find_windows(stream);
  ASSERT_GE(windows.size(), 4u);
  for (const Span& window : windows) {
    EXPECT_EQ(window.end - window.begin, 25u);
    // With a new batch, and not in the hooks, where fewer bytes are alive.
    EXPECT_EQ(stream.ops[window.begin].facts.name, "stack");
  }
}

// As a dry run ends: in the forward pass of a step, with the value of the last step's loss still there.
TEST(Windows, OptimizersThatStepInTheBackwardPassDoNotMoveTheBoundaryIntoAStep) {
  StepProgram program;
  std::uint64_t loss = 0;
  for (int i = 0; i < 4; ++i) {
    program.load(), program.forward();
    const auto next = program.make("loss");
    if (loss != 0) program.free(loss);
    loss = next;
    if (i < 3) program.step_in_backward();
  }
  const Stream stream = program.recorder.stream();
  const std::vector<Span> windows = find_windows(stream);
  ASSERT_EQ(windows.size(), 2u);
  for (const Span& window : windows) EXPECT_FALSE(stream.ops[window.begin].facts.backward);
  // A batch is made first.
  EXPECT_EQ(stream.ops[windows.back().begin].facts.name, "stack");
}

TEST(Windows, EvaluationEveryFewStepsHasWindowsOfItsOwn) {
  StepProgram program;
  for (int i = 0; i < 4; ++i) program.train(3), program.evaluate(5);
  EXPECT_EQ(program.classes(), (Classes{"11 x 31", "20 x 12"}));
}

TEST(Windows, EvaluationThatHoldsABatchOfItsOwnIsTakenApart) {
  StepProgram program;
  for (int i = 0; i < 4; ++i) {
    program.train(3);
    std::uint64_t batch = 0;
    for (int k = 0; k < 5; ++k) {
      const auto next = program.make("stack");
      program.free(batch);
      batch = next;
      program.evaluate(1);
    }
    program.free(batch);
  }
  // Before the first of five batches none is held, and none after the last.
  EXPECT_EQ(program.classes(), (Classes{"11 x 31", "12 x 13", "4 x 12"}));
}

TEST(Windows, LoopOverTimeIsNone) {
  StepProgram program;
  for (int i = 0; i < 5; ++i) {
    program.train(2);
    auto state = program.make("zeros");
    for (int t = 0; t < 50; ++t) {
      const auto next = program.make("cell", {{program.weight(0), false}, {state, false}});
      program.free(std::exchange(state, next));
    }
    program.free(state);
  }
  for (const WindowClass& one : classify_windows(program.recorder.stream())) EXPECT_GE(one.trace.ops.size(), kStep);
}

TEST(Windows, LoggingAndAveragingBelongToTheStepBefore) {
  StepProgram program;
  for (int i = 0; i < 12; ++i) {
    program.train();
    if (i % 4 == 3)
      for (std::size_t k = 0; k < 6; ++k) program.run("norm", {{program.weight(k), false}});
  }
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].trace.ops.size(), kStep);
  EXPECT_EQ(classes[1].trace.ops.size(), kStep + 6);
  EXPECT_GE(classes[1].windows.size(), 2u);
}

TEST(Windows, EpochsEndWithinAClass) {
  StepProgram program;
  for (int epoch = 0; epoch < 4; ++epoch) {
    program.train(4);
    program.recorder.op_ends(program.recorder.op_begins({.name = "randperm"}, {}), {});  // small
  }
  EXPECT_EQ(program.classes(), (Classes{"14 x 31"}));
}

// In the middle epoch a loader's worker makes the batches, in memory that is not recorded.
TEST(Windows, EpochWithBatchesFromElsewhereIsAPhaseOfItsOwn) {
  StepProgram program;
  for (int epoch = 0; epoch < 3; ++epoch) {
    if (epoch == 1) program.unload();
    for (int i = 0; i < 5; ++i) {
      if (epoch != 1) program.load();
      program.zero_grad(), program.forward(), program.backward(), program.step();
    }
  }
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_GE(classes.size(), 2u);
  EXPECT_EQ(classes[0].trace.ops.size(), kStep);
  EXPECT_GE(classes[0].windows.size(), 7u);
  EXPECT_EQ(classes[1].trace.ops.size(), kStep - 1);
  EXPECT_GE(classes[1].windows.size(), 3u);
}

TEST(Windows, OneStructureWithOtherSizesIsAnotherClass) {
  StepProgram program;
  for (int i = 0; i < 16; ++i) {
    program.resize(i % 4 == 1 ? 128_KiB : 64_KiB);
    program.train();
  }
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].trace.ops.size(), classes[1].trace.ops.size());
  EXPECT_EQ(classes[1].windows.size(), 4u);
}

TEST(Windows, BatchThatIsLargerNextTimeIsHeldInTheLargerSize) {
  StepProgram program;
  for (int i = 0; i < 12; ++i) {
    program.load(i % 2 == 0 ? 64_KiB : 96_KiB);
    program.zero_grad(), program.forward(), program.backward(), program.step();
  }
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_FALSE(classes.empty());
  for (const WindowClass& one : classes) EXPECT_NO_THROW(check(one.trace));
}

TEST(Windows, TwoOptimizersInTurnAreTwoClasses) {
  StepProgram program;
  for (int i = 0; i < 10; ++i) {
    program.train();
    program.run("clamp_", {{program.weight(0), true}});
    program.load(), program.forward(), program.backward();  // the other's loss, with gradients to add to
    program.step();
  }
  const auto classes = program.classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0], "10 x 37");
  EXPECT_EQ(classes[1], "9 x 32");
}

TEST(Windows, MarkedStepsStandForTheOptimizers) {
  StepProgram program;
  for (int i = 0; i < 6; ++i) {
    program.evaluate(1);
    program.recorder.hint(Hint::kStepEnds);
  }
  EXPECT_EQ(program.classes().size(), 1u);
}

TEST(Windows, ProgramThatOnlyGrowsHasNone) {
  StepProgram program;
  for (int i = 0; i < 50; ++i) program.make("cat");
  EXPECT_TRUE(program.classes().empty());
}

TEST(Windows, TimesAreMediansAndTemporariesTheMost) {
  StepProgram program;
  program.train(5);
  Stream stream = program.recorder.stream();
  const auto classes = classify_windows(stream);
  const Span first = classes[0].windows.front();
  stream.ops[first.begin].time = std::chrono::seconds(1);
  stream.ops[first.begin].temporary = 1_MiB;
  const Op op = classify_windows(stream)[0].trace.ops[0];
  EXPECT_EQ(op.time, std::chrono::microseconds(10));
  EXPECT_EQ(op.temporary, 1_MiB);
}

// The batch is made before the old one dies, so for one op both are alive.
TEST(Windows, StorageThatIsReplacedIsAliveAllTheTime) {
  StepProgram program;
  program.train(5);
  const Trace trace = classify_windows(program.recorder.stream())[0].trace;
  const auto load = std::ranges::find(trace.ops, "stack", &Op::name);
  ASSERT_NE(load, trace.ops.end());
  ASSERT_EQ(load->births.size(), 1u);
  ASSERT_EQ(load->writes.size(), 1u);
  EXPECT_TRUE(
      std::ranges::count(load->deaths, load->births[0]));  // stands in for the new batch until the old one is dead
  EXPECT_TRUE(trace.storages[index(load->writes[0])].entry);
  EXPECT_EQ(load->renews, load->writes) << "the op is not given the old batch";
}

// With cuDNN the two passes of a recurrent network are few ops, so that clipping and the update are many of a step.
TEST(Windows, UpdateIsNoWindowOfItsOwnHoweverShortTheStepIs) {
  StepProgram program;
  for (int i = 0; i < 8; ++i)
    program.load(), program.zero_grad(), program.forward(), program.backward(), program.clip_and_step_at_once();
  const auto classes = classify_windows(program.recorder.stream());
  ASSERT_FALSE(classes.empty());
  for (const WindowClass& one : classes)
    EXPECT_TRUE(std::ranges::any_of(one.trace.ops, [](const Op& op) { return op.backward; }))
        << one.windows.size() << " x " << one.trace.ops.size();
}

TEST(Windows, StepIsFoundThoughALoaderIsMostOfTheOps) {
  StepProgram program;
  for (int i = 0; i < 4; ++i) program.train(2), program.evaluate(20);
  const Stream stream = program.recorder.stream();
  const auto classes = classify_windows(stream);
  ASSERT_EQ(program.classes(), (Classes{"80 x 12", "7 x 31"}));
  EXPECT_EQ(find_step(classes, stream), 1u);
}

TEST(Windows, StepIsOneInWhichAnOptimizerStepsBeforeOneThatOnlyRunsBackward) {
  StepProgram program;
  for (int i = 0; i < 5; ++i) {
    program.zero_grad();
    for (int micro = 0; micro < 4; ++micro) program.load(), program.forward(), program.backward();
    program.step();
  }
  const Stream stream = program.recorder.stream();
  const auto classes = classify_windows(stream);
  const auto step = find_step(classes, stream);
  ASSERT_TRUE(step);
  EXPECT_TRUE(std::ranges::any_of(classes[*step].trace.ops, &Op::optimizer));
}

TEST(Windows, NoStepIsFoundInAnEvaluation) {
  StepProgram program;
  program.load();
  program.evaluate(20);
  const Stream stream = program.recorder.stream();
  EXPECT_EQ(find_step(classify_windows(stream), stream), std::nullopt);
}

}  // namespace
}  // namespace tensorpager::trace
