#include "tensorpager/trace/alike.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "step_program.h"

namespace tensorpager::trace {
namespace {

using namespace base;

std::vector<WindowClass> join(const StepProgram& program, std::size_t least_ops = 0) {
  return join_alike(classify_windows(program.recorder.stream()), least_ops);
}

void train_with(StepProgram& program, std::uint64_t pages) {
  program.resize(Bytes(pages << 12));
  program.train(1);
}

TEST(Alike, StepsOfOtherSizesAreJoinedAtTheLargest) {
  StepProgram program;
  program.train(1);
  for (const std::uint64_t pages : {30, 50, 20, 40}) train_with(program, pages);
  const std::vector<WindowClass> joined = join(program);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_GE(joined[0].windows.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(joined[0].windows, {}, &Span::begin));
  const Trace& trace = joined[0].trace;
  EXPECT_EQ(trace.ops.size(), kStep);
  EXPECT_NO_THROW(check(trace));
  Bytes largest;
  for (const Storage& storage : trace.storages) largest = std::max(largest, storage.bytes);
  EXPECT_EQ(largest, Bytes(std::uint64_t{50} << 12));
}

TEST(Alike, WhatCameAgainStandsForItself) {
  StepProgram program;
  program.train(6);
  EXPECT_TRUE(join(program).empty());
}

TEST(Alike, WhatCameAgainStandsForWhatIsLikeIt) {
  StepProgram program;
  program.train(6);
  for (const std::uint64_t pages : {30, 50, 20, 40}) train_with(program, pages);
  EXPECT_TRUE(join(program).empty());
  // But for what came again too seldom to be planned.
  const auto joined = join(program, 8 * kStep);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_GE(joined[0].windows.size(), 6u);
}

TEST(Alike, WhatCameAgainIsOfThoseThatItIsLikeWhereMostCameOnce) {
  StepProgram program;
  program.train(1);
  for (const std::uint64_t pages : {30, 50, 20, 30, 40, 60, 25, 45}) train_with(program, pages);
  const auto joined = join(program);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_GE(joined[0].windows.size(), 6u);
}

TEST(Alike, OpsLeftOutHereAndThereMakeNoDifference) {
  StepProgram program;
  for (int step = 0; step < 6; ++step) {
    program.load(), program.zero_grad();
    // After another layer in each step.
    for (int i = 0; i < 2 * step; ++i) program.run("norm", {{program.weight(0), false}});
    program.forward(), program.backward(), program.step();
  }
  const auto joined = join(program);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_GE(joined[0].windows.size(), 4u);
  EXPECT_EQ(joined[0].trace.ops.size(), kStep + 8);  // the newest but one, which is over
}

TEST(Alike, TrainingAndEvaluationAreNot) {
  StepProgram program;
  program.train(1);
  for (const std::uint64_t pages : {30, 50, 20, 40, 25, 45}) {
    train_with(program, pages);
    program.evaluate(2);
  }
  const auto joined = join(program);
  ASSERT_EQ(joined.size(), 1u) << "evaluations are all of the same sizes";
  const auto has = [&](const char* name) {
    return std::ranges::any_of(joined[0].trace.ops, [&](const Op& op) { return op.name == name; });
  };
  EXPECT_TRUE(has("sqrt"));
  EXPECT_FALSE(has("relu"));
}

}  // namespace
}  // namespace tensorpager::trace
