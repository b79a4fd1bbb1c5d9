#include "tensorpager/sim/simulator.h"

#include <gtest/gtest.h>

namespace tensorpager::sim {
namespace {

using namespace base;
using namespace std::chrono_literals;
using plan::Fill;
using plan::Leave;
using trace::StorageId;

constexpr StorageId kFirst{0};
constexpr StorageId kSecond{1};
constexpr Bytes kSize{40960};

// Op times 10, 2 and 3 us; a transfer takes 4 us.
//
// compute  |make 0-10|        wait -14|other -16|      wait -20|use -23|
// out               |first 10-14 |
// in                                            |first 16-20|
struct Example {
  trace::Trace trace = {.granule = 4_KiB,
                        .storages = {{.bytes = kSize}, {.bytes = kSize}},
                        .ops = {{.name = "make", .births = {kFirst}, .time = 10us},
                                {.name = "other", .births = {kSecond}, .deaths = {kSecond}, .time = 2us},
                                {.name = "use", .reads = {kFirst}, .deaths = {kFirst}, .time = 3us}}};
  plan::Plan plan = {
      .budget = 80_KiB,
      .slab = 4_KiB,
      .ops = 3,
      .rows = {{.storage = kFirst, .bytes = kSize, .end = 1, .leave = Leave::kPageOut},
               {.storage = kSecond, .bytes = kSize, .begin = 1, .need = 1, .end = 2, .wait = 1},
               {.storage = kFirst, .bytes = kSize, .begin = 2, .need = 2, .end = 3, .fill = Fill::kPageIn}}};
  machine::Machine machine = [] {
    machine::Machine made;
    made.out = made.in = {.latency = 0ns, .steps = {{.from = 0_B, .bytes_per_second = 1.024e10}}};
    return made;
  }();
};

TEST(Simulator, ShowsWhatAPersonWorksOutByHand) {
  const Example example;
  const Outcome outcome = simulate(example.trace, example.plan, example.machine);
  EXPECT_EQ(outcome.measured.step, 23us);
  EXPECT_EQ(outcome.measured.compute, 15us);
  EXPECT_EQ(outcome.stalled(), 8us);
  EXPECT_EQ(outcome.measured.page_out, kSize);
  EXPECT_EQ(outcome.measured.page_in, kSize);
  EXPECT_EQ(outcome.measured.curve, (std::vector<Bytes>{44_KiB, 44_KiB, 44_KiB}));
  ASSERT_EQ(outcome.stalls.size(), 2u);
  EXPECT_EQ(outcome.stalls[0].op, 1u);
  EXPECT_EQ(outcome.stalls[0].cause, plan::Stall::Cause::kPageOut);
  EXPECT_EQ(outcome.stalls[0].time, 4us);
  EXPECT_EQ(outcome.stalls[1].op, 2u);
  EXPECT_EQ(outcome.stalls[1].cause, plan::Stall::Cause::kPageIn);
}

// The page-out is handled before the next op, after the wait, and the page-in before the op at which it is submitted.
TEST(Simulator, HandlesTransfersWhereOpsBegin) {
  Example example;
  example.machine.out.handling = 1us;
  example.machine.in.handling = 2us;
  const Outcome outcome = simulate(example.trace, example.plan, example.machine);
  EXPECT_EQ(outcome.measured.step, 26us);
  EXPECT_EQ(outcome.stalled(), 8us);
  EXPECT_EQ(outcome.handled, 3us);
}

// With a block of its own for the second storage nothing waits for the page-out, but its bytes stay charged until a
// wait: here that of the next window's first row, for its own block.
TEST(Simulator, ChargesAPageOutUntilItIsWaitedFor) {
  Example example;
  example.plan.budget = 84_KiB;
  example.plan.rows[1].offset = kSize.count();
  example.plan.rows[1].wait = 0;
  example.plan.rows[2].offset = kSize.count();
  example.plan.rows[0].wait = 1;
  const Outcome outcome = simulate(example.trace, example.plan, example.machine);
  // The page-in is submitted at 12 us, and starts when the page-out is done, at 14.
  EXPECT_EQ(outcome.measured.step, 21us);
  EXPECT_EQ(outcome.measured.curve, (std::vector<Bytes>{44_KiB, 84_KiB, 84_KiB}));
  EXPECT_EQ(outcome.measured.peak, 84_KiB);
}

// A page-in that waits for a page-out does so in its queue: compute goes on.
TEST(Simulator, LetsAPageInWaitInItsQueue) {
  Example example;
  example.trace.ops.insert(example.trace.ops.begin() + 1, {.name = "between", .time = 6us});
  example.plan.ops = 4;
  example.plan.rows = {
      {.storage = kFirst, .bytes = kSize, .end = 1, .leave = Leave::kPageOut},
      {.storage = kFirst, .bytes = kSize, .begin = 1, .need = 3, .end = 4, .wait = 1, .fill = Fill::kPageIn},
      {.storage = kSecond, .bytes = kSize, .offset = kSize.count(), .begin = 2, .need = 2, .end = 3}};
  example.plan.budget = 84_KiB;
  const Outcome outcome = simulate(example.trace, example.plan, example.machine);
  EXPECT_EQ(outcome.measured.step, 21us);
  EXPECT_EQ(outcome.stalled(), 0us);
}

}  // namespace
}  // namespace tensorpager::sim
