#include "tensorpager/sim/misses.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../plan/synthetic_traces.h"

namespace tensorpager::sim {
namespace {

TEST(Misses, AreTheShareAskedForAndOfAllKinds) {
  const trace::Trace planned = plan::layered_trace(3000);
  std::mt19937 random(1);
  const Missed missed = with_misses(planned, 0.1, random);
  EXPECT_NEAR(static_cast<double>(missed.inserted), 100, 30);
  EXPECT_NEAR(static_cast<double>(missed.left_out), 100, 30);
  EXPECT_GT(missed.grown, 30u);
  EXPECT_EQ(missed.window.ops.size(), planned.ops.size() + missed.inserted - missed.left_out);
}

TEST(Misses, AreNoneWhereNoneAreAskedFor) {
  const trace::Trace planned = plan::random_trace(3);
  std::mt19937 random(1);
  const Missed missed = with_misses(planned, 0, random);
  EXPECT_EQ(missed.inserted + missed.left_out + missed.grown, 0u);
  EXPECT_EQ(missed.window.ops.size(), planned.ops.size());
}

TEST(Misses, MakeValidWindowsThatBeginAsThePlannedOneDid) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const trace::Trace planned = plan::random_trace(seed);
    std::mt19937 random(seed);
    const trace::Trace missed = with_misses(planned, seed % 4 * 0.2, random).window;
    ASSERT_NO_THROW(trace::check(missed));
    ASSERT_GE(missed.storages.size(), planned.storages.size());
    const base::Bytes largest = std::ranges::max(planned.storages, {}, &trace::Storage::bytes).bytes;
    for (std::size_t i = 0; i < planned.storages.size(); ++i) {
      ASSERT_EQ(missed.storages[i].entry, planned.storages[i].entry);
      ASSERT_TRUE(!planned.storages[i].entry || missed.storages[i].bytes == planned.storages[i].bytes);
    }
    for (std::size_t i = planned.storages.size(); i < missed.storages.size(); ++i)
      ASSERT_TRUE(!missed.storages[i].entry && missed.storages[i].bytes.count() <= largest.count() * 5 / 4);
  }
}

}  // namespace
}  // namespace tensorpager::sim
