#include "tensorpager/fit/scaling.h"

#include <gtest/gtest.h>

#include "tensorpager/base/errors.h"

namespace tensorpager::fit {
namespace {

using namespace base;
using trace::StorageId;
using trace::Trace;

/// A weight of 1000 bytes, and an output of 24 bytes a sample.
Trace step(std::uint64_t samples) {
  Trace trace{.granule = 512_B, .slab = Bytes(100 + samples)};
  trace.storages = {{.bytes = 1000_B, .entry = true}, {.bytes = Bytes(24 * samples)}};
  trace.ops = {{.name = "mm",
                .reads = {StorageId{0}},
                .births = {StorageId{1}},
                .temporary = Bytes(8 * samples),
                .time = std::chrono::nanoseconds(500 + 3 * samples),
                .flops = 300 * samples,
                .moved = Bytes(1000 + 24 * samples)},
               {.name = "sum", .reads = {StorageId{1}}, .deaths = {StorageId{1}}, .flops = samples}};
  return trace;
}

void expect_equal(const Trace& scaled, const Trace& real) {
  EXPECT_EQ(scaled.slab, real.slab);
  for (std::size_t i = 0; i < real.storages.size(); ++i) EXPECT_EQ(scaled.storages[i].bytes, real.storages[i].bytes);
  for (std::size_t i = 0; i < real.ops.size(); ++i) {
    EXPECT_EQ(scaled.ops[i].temporary, real.ops[i].temporary);
    EXPECT_EQ(scaled.ops[i].moved, real.ops[i].moved);
    EXPECT_EQ(scaled.ops[i].flops, real.ops[i].flops);
    EXPECT_EQ(scaled.ops[i].time, real.ops[i].time);
  }
  EXPECT_EQ(other_amounts(scaled, real).count, 0u);
  EXPECT_EQ(difference_of(scaled, real), "");
}

TEST(Scaling, HitsEverySizeBelowBetweenAndBeyondTheTwo) {
  const Scaling scaling({.size = 16, .trace = step(16)}, {.size = 32, .trace = step(32)});
  for (const std::uint64_t size : {1, 15, 16, 17, 31, 32, 33, 1000, 1'000'000}) {
    SCOPED_TRACE(size);
    expect_equal(scaling.at(size), step(size));
  }
}

TEST(Scaling, HitsAmountsThatGrowWithTheSquareFromThreeSizes) {
  const auto attention = [](std::uint64_t length) {
    Trace trace = step(length);
    trace.storages[1].bytes = Bytes(2 * length * length + 24 * length + 7);
    trace.ops[0].flops = 5 * length * length * 1'000'000;
    return trace;
  };
  Scaling scaling({.size = 16, .trace = attention(16)}, {.size = 32, .trace = attention(32)});
  EXPECT_EQ(other_amounts(scaling.at(1000), attention(1000)).count, 2u) << "a storage, and the op that makes it";
  scaling.add({.size = 500, .trace = attention(500)});
  for (const std::uint64_t size : {1, 16, 20, 32, 300, 500, 1000, 100'000}) {
    SCOPED_TRACE(size);
    expect_equal(scaling.at(size), attention(size));
  }
}

TEST(Scaling, UsesTheNearestOfMoreThanThreeSizes) {
  const auto padded = [](std::uint64_t samples) { return step(samples <= 100 ? samples : samples + 50); };
  Scaling scaling({.size = 150, .trace = padded(150)}, {.size = 200, .trace = padded(200)});
  scaling.add({.size = 300, .trace = padded(300)});
  scaling.add({.size = 16, .trace = padded(16)});
  EXPECT_EQ(scaling.traces().front().size, 16u);
  EXPECT_EQ(other_amounts(scaling.at(1000), padded(1000)).count, 0u);
}

TEST(Scaling, TakesTimesOnTheLineThroughNeighboursAndPlausibleOnesBeyond) {
  const auto timed = [](std::uint64_t samples, int microseconds) {
    Trace trace = step(samples);
    trace.ops[0].time = std::chrono::microseconds(microseconds);
    return SizedTrace{.size = samples, .trace = trace};
  };
  const auto microseconds_at = [](const Scaling& scaling, std::uint64_t size) {
    return scaling.at(size).ops[0].time / std::chrono::microseconds(1);
  };
  Scaling steep(timed(16, 100), timed(32, 400));
  EXPECT_EQ(microseconds_at(steep, 8), 50) << "in proportion, not below nothing";
  EXPECT_EQ(microseconds_at(steep, 64), 1000);
  steep.add(timed(128, 500));
  EXPECT_EQ(microseconds_at(steep, 24), 250);
  EXPECT_EQ(microseconds_at(steep, 80), 450);
  const Scaling falling(timed(16, 400), timed(32, 100));
  EXPECT_EQ(microseconds_at(falling, 8), 400);
  EXPECT_EQ(microseconds_at(falling, 64), 100);
}

TEST(Scaling, HasNoAmountsBelowNothing) {
  Trace small = step(16), large = step(32);
  small.storages[1].bytes = 100_B;
  large.storages[1].bytes = 2000_B;
  const Scaling scaling({.size = 16, .trace = small}, {.size = 32, .trace = large});
  EXPECT_EQ(scaling.at(1).storages[1].bytes, 0_B);
}

TEST(Scaling, RefusesStepsThatDoOtherThingsAndSaysWhich) {
  Trace other = step(32);
  other.ops[1].name = "mean";
  try {
    Scaling({.size = 16, .trace = step(16)}, {.size = 32, .trace = other});
    FAIL() << "was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "the steps at 16 and 32 are not the same: op 1 is sum and mean");
  }
  EXPECT_THROW(Scaling({.size = 16, .trace = step(16)}, {.size = 16, .trace = step(16)}), InvalidArgument);
}

TEST(DifferenceOf, TellsOfOpsStoragesAndLives) {
  Trace other = step(16);
  other.ops[0].reads.clear();
  EXPECT_EQ(difference_of(step(16), other), "op 0 is mm on other storages");
  other = step(16);
  other.ops.pop_back();
  EXPECT_EQ(difference_of(step(16), other), "2 and 1 ops");
  other = step(16);
  other.storages.emplace_back();
  EXPECT_EQ(difference_of(step(16), other), "2 and 3 storages");
  other = step(16);
  other.storages[0].entry = false;
  EXPECT_EQ(difference_of(step(16), other), "storage 0 lives through only one of the steps");
}

TEST(OtherAmounts, CountStoragesAndOpsAndTellTheFirst) {
  EXPECT_EQ(other_amounts(step(16), step(16)).count, 0u);
  EXPECT_EQ(other_amounts(step(16), step(17)).count, 3u);
  EXPECT_EQ(other_amounts(step(16), step(17)).first, "storage 1: 384 and 408 bytes");
  Trace other = step(16);
  other.ops[1].flops = 1;
  EXPECT_EQ(other_amounts(step(16), other).count, 1u);
  EXPECT_EQ(other_amounts(step(16), other).first, "op 1, sum: 16 and 1 flops");
  other = step(16);
  other.ops[1].time = std::chrono::nanoseconds(1);
  EXPECT_EQ(other_amounts(step(16), other).count, 0u);
}

}  // namespace
}  // namespace tensorpager::fit
