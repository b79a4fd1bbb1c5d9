#include "tensorpager/fit/budgets.h"

#include <gtest/gtest.h>

#include "tensorpager/fit/estimate.h"
#include "tensorpager/plan/liveness.h"

namespace tensorpager::fit {
namespace {

using namespace base;
using namespace std::chrono_literals;
using trace::StorageId;

/// `layers` maps of 1 MiB, made one after the other and used in reverse; each op takes as long as its map takes over
/// the link.
trace::Trace deep_net(std::uint32_t layers) {
  trace::Trace trace{.granule = 512_B};
  for (std::uint32_t i = 0; i < layers; ++i) trace.storages.push_back({.bytes = 1_MiB});
  for (std::uint32_t i = 0; i < layers; ++i) {
    trace.ops.push_back({.name = "forward", .births = {StorageId{i}}, .time = 100us});
    if (i > 0) trace.ops.back().reads = {StorageId{i - 1}};
  }
  for (std::uint32_t i = layers; i-- > 0;)
    trace.ops.push_back({.name = "backward", .reads = {StorageId{i}}, .deaths = {StorageId{i}}, .time = 100us});
  return trace;
}

machine::Machine machine(double link_rate) {
  machine::Machine made;
  made.out = made.in = {.latency = 0ns, .steps = {{.from = 0_B, .bytes_per_second = link_rate}}};
  made.card = machine::Card{.major = 9, .minor = 0, .multiprocessors = 132, .memory = 8_GiB};
  return made;
}

TEST(Budgets, BelowTheFloorHasNoCost) {
  const trace::Trace trace = deep_net(16);
  const plan::Liveness liveness(trace);
  EXPECT_EQ(cost_of(trace, liveness, machine(1e10), liveness.floor() - 512_B), std::nullopt);
}

TEST(Budgets, NeedItselfCostsNothing) {
  const trace::Trace trace = deep_net(16);
  const plan::Liveness liveness(trace);
  const auto cost = cost_of(trace, liveness, machine(1e10), liveness.need());
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->overhead, 0);
  EXPECT_EQ(cost->page_out, 0_B);
}

TEST(Budgets, FastLinkMakesASmallerBudgetFreeThanASlowOne) {
  const trace::Trace trace = deep_net(32);
  const Cost fast = cheapest_within(trace, machine(1e12), 0.01, 8),
             slow = cheapest_within(trace, machine(1e8), 0.01, 8);
  EXPECT_LT(fast.budget, slow.budget);
  EXPECT_LE(fast.overhead, 0.01);
  EXPECT_LE(slow.overhead, 0.01);
}

TEST(Estimate, SaysThatAProgramDoesNotFitAndWhatTheWholeCardWouldCost) {
  const trace::Trace trace = deep_net(32);
  const Estimate fits = estimate(trace, machine(1e10), 32_MiB, 40_MiB, 20_MiB);
  EXPECT_TRUE(fits.fits());
  EXPECT_EQ(fits.whole_card, std::nullopt);
  ASSERT_TRUE(fits.asked);
  EXPECT_EQ(fits.asked->budget, 20_MiB);
  const Estimate large = estimate(trace, machine(1e10), 8_GiB, 8_GiB, std::nullopt);
  EXPECT_FALSE(large.fits());
  ASSERT_TRUE(large.whole_card);
  EXPECT_EQ(large.whole_card->budget, large.need) << "no more than it needs";
  EXPECT_EQ(large.whole_card->overhead, 0);
}

}  // namespace
}  // namespace tensorpager::fit
