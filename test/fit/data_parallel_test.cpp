#include "tensorpager/fit/data_parallel.h"

#include <gtest/gtest.h>

#include "tensorpager/plan/liveness.h"

namespace tensorpager::fit {
namespace {

using namespace base;
using namespace std::chrono_literals;
using trace::StorageId;

/// Layer i's gradient, of 30 MiB, is made by op 2 * layers - 1 - i, which takes 10 ms; then an optimizer's op uses all.
trace::Trace net(std::uint32_t layers) {
  trace::Trace trace{.granule = 512_B};
  for (std::uint32_t i = 0; i < layers; ++i) trace.storages.push_back({.bytes = 40_MiB});  // maps
  for (std::uint32_t i = 0; i < layers; ++i) trace.storages.push_back({.bytes = 30_MiB});  // gradients
  for (std::uint32_t i = 0; i < layers; ++i)
    trace.ops.push_back({.name = "forward", .births = {StorageId{i}}, .time = 5ms});
  for (std::uint32_t i = layers; i-- > 0;)
    trace.ops.push_back({.name = "backward",
                         .reads = {StorageId{i}},
                         .births = {StorageId{layers + i}},
                         .deaths = {StorageId{i}},
                         .time = 10ms,
                         .backward = true});
  trace.ops.push_back({.name = "step", .time = 1ms, .optimizer = true});
  for (std::uint32_t i = 0; i < layers; ++i) {
    trace.ops.back().reads.push_back(StorageId{layers + i});
    trace.ops.back().deaths.push_back(StorageId{layers + i});
  }
  trace::check(trace);
  return trace;
}

machine::Machine machine() {
  machine::Machine made;
  made.out = made.in = {.latency = 0ns, .steps = {{.from = 0_B, .bytes_per_second = 4e9}}};
  return made;
}

TEST(AllReduce, TakesAsRingsDo) {
  const Ranks ranks{.count = 4, .bytes_per_second = 1e9, .latency = 5us};
  EXPECT_EQ(all_reduce_time(Bytes(4'000'000), ranks), 6 * (1ms + 5us));
  EXPECT_EQ(all_reduce_time(Bytes(4'000'000), {.count = 1, .bytes_per_second = 1e9}), 0ns);
}

TEST(DataParallel, FindsTheGradients) {
  trace::Trace trace = net(3);
  EXPECT_EQ(gradient_bytes(trace), 90_MiB);
  trace.ops.back().optimizer = false;
  EXPECT_EQ(gradient_bytes(trace), 0_B);
}

TEST(DataParallel, HidesAllButTheLastBucketBehindTheBackwardPass) {
  const trace::Trace trace = net(4);
  // 2 ranks: 30 MiB move once, in less than the 10 ms of an op.
  const Ranks ranks{.count = 2, .bytes_per_second = 4e9, .latency = 0ns};
  const Reduction found = reduce_gradients(trace, clock_of(trace, machine()), ranks);
  const Nanoseconds each = all_reduce_time(30_MiB, ranks);
  EXPECT_EQ(found.buckets, 4u);
  EXPECT_EQ(found.gradients, 120_MiB);
  EXPECT_EQ(found.transfers, 4 * each);
  EXPECT_EQ(found.exposed, each);
  EXPECT_EQ(found.step, 61ms + each);
  EXPECT_NEAR(found.efficiency(), 61.0 / (61.0 + std::chrono::duration<double, std::milli>(each).count()), 1e-9);
}

TEST(DataParallel, IsBoundByTransfersThatTakeLongerThanTheBackwardPass) {
  const trace::Trace trace = net(4);
  const Ranks ranks{.count = 2, .bytes_per_second = 1e9, .latency = 0ns};
  const Reduction found = reduce_gradients(trace, clock_of(trace, machine()), ranks);
  // From the end of the first op of the backward pass on, one after the other; three of its ops are left by then.
  EXPECT_EQ(found.exposed, 4 * all_reduce_time(30_MiB, ranks) - 30ms);
}

TEST(DataParallel, GathersSmallGradientsInBuckets) {
  trace::Trace trace = net(8);
  for (std::uint32_t i = 8; i < 16; ++i) trace.storages[i].bytes = 10_MiB;
  // The first alone exceeds the first bucket; then three each, and one is left.
  EXPECT_EQ(reduce_gradients(trace, clock_of(trace, machine()), {.count = 2, .bytes_per_second = 1e9}).buckets, 4u);
}

TEST(DataParallel, TakesTheTimesOfAPlan) {
  const trace::Trace trace = net(8);
  const plan::Liveness liveness(trace);
  const Bytes budget((liveness.floor().count() + liveness.need().count()) / 2);
  const plan::Plan plan =
      planning::make_planner("pages")->plan({.trace = trace, .machine = machine(), .budget = budget}).value();
  const Clock paged = clock_of(trace, machine(), plan);
  ASSERT_EQ(paged.starts.size(), trace.ops.size());
  EXPECT_EQ(paged.step, plan.predicted.step);
  EXPECT_GT(paged.step, clock_of(trace, machine()).step);
  for (std::size_t op = 1; op < paged.starts.size(); ++op) EXPECT_GE(paged.starts[op], paged.ends[op - 1]);
}

}  // namespace
}  // namespace tensorpager::fit
