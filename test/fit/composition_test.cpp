#include "tensorpager/fit/composition.h"

#include <gtest/gtest.h>

namespace tensorpager::fit {
namespace {

using namespace base;
using trace::StorageId;

constexpr StorageId kWeight{0}, kMomentum{1}, kWorkspace{2}, kInput{3}, kActivation{4}, kGradient{5}, kBackward{6};

/// A step of one layer: forward, two ops of the backward pass, and an update. The peak is at the second backward op.
trace::Trace step() {
  return {.granule = 512_B,
          .storages = {{.bytes = 1024_KiB, .entry = true},
                       {.bytes = 512_KiB, .entry = true},
                       {.bytes = 32_MiB, .entry = true},
                       {.bytes = 64_KiB, .entry = true},
                       {.bytes = 4_MiB},
                       {.bytes = 1024_KiB},
                       {.bytes = 2_MiB}},
          .ops = {{.name = "mm", .reads = {kWeight, kInput}, .births = {kActivation}},
                  {.name = "mul", .reads = {kActivation}, .births = {kBackward}, .backward = true},
                  {.name = "mm",
                   .reads = {kBackward, kActivation},
                   .births = {kGradient},
                   .deaths = {kActivation, kBackward},
                   .temporary = 128_KiB,
                   .backward = true},
                  {.name = "sgd",
                   .reads = {kGradient},
                   .writes = {kWeight, kMomentum},
                   .deaths = {kGradient},
                   .optimizer = true}}};
}

TEST(Composition, SaysWhatEachStorageIsForByWhoUsesIt) {
  const trace::Trace trace = step();
  const plan::Liveness liveness(trace);
  const Composition parts = composition_at_peak(trace, liveness);
  EXPECT_EQ(parts.op, 2u);
  EXPECT_EQ(parts.parameters, 1024_KiB);
  EXPECT_EQ(parts.optimizer_state, 512_KiB);
  EXPECT_EQ(parts.workspaces, 32_MiB);
  EXPECT_EQ(parts.others, 64_KiB);
  EXPECT_EQ(parts.activations, 4_MiB);
  EXPECT_EQ(parts.backward, 2_MiB);
  EXPECT_EQ(parts.gradients, 1024_KiB);
  EXPECT_EQ(parts.temporaries, 128_KiB);
}

TEST(Composition, PartsAddUpToTheNeed) {
  const trace::Trace trace = step();
  const plan::Liveness liveness(trace);
  const Composition p = composition_at_peak(trace, liveness);
  EXPECT_EQ(p.parameters + p.optimizer_state + p.workspaces + p.others + p.activations + p.backward + p.gradients +
                p.temporaries,
            liveness.need());
}

// Adam over lists of tensors makes as many bytes as there are parameters, for a moment.
TEST(Composition, WhatTheOptimizerMakesIsTemporary) {
  trace::Trace trace = step();
  trace.storages.push_back({.bytes = 64_MiB});
  trace.ops[3].births = {StorageId{7}};
  trace.ops[3].deaths.push_back(StorageId{7});
  const Composition parts = composition_at_peak(trace, plan::Liveness(trace));
  EXPECT_EQ(parts.op, 3u);
  EXPECT_EQ(parts.temporaries, 64_MiB);
  EXPECT_EQ(parts.activations, 0_B);
}

TEST(Composition, NameGivenByTheRecordingComesFirst) {
  trace::Trace trace = step();
  trace.storages[trace::index(kInput)].name = "parameter";  // a frozen weight of an optimizer's
  trace.storages[trace::index(kWeight)].name = "gradient";
  const Composition parts = composition_at_peak(trace, plan::Liveness(trace));
  EXPECT_EQ(parts.parameters, 64_KiB);
  EXPECT_EQ(parts.gradients, 2_MiB);
  EXPECT_EQ(parts.others, 0_B);
}

}  // namespace
}  // namespace tensorpager::fit
