#include "tensorpager/plan/liveness.h"

#include <gtest/gtest.h>

#include "synthetic_traces.h"

namespace tensorpager::plan {
namespace {

using namespace base;

// op:        0     1     2     3
// 0 (100K)   ======================   a parameter
// 1 (40K)        ============         born at 1, dies after 2
// 2 (20K)   ====             =====    dies after 0, is born again at 3
// 3 (8K)         ============         small
trace::Trace example() {
  return {.granule = 4_KiB,
          .storages = {{.bytes = 100_KiB, .entry = true},
                       {.bytes = 40_KiB},
                       {.bytes = 20_KiB, .entry = true},
                       {.bytes = 7_KiB}},
          .ops = {{.name = "zero", .deaths = {storage(2)}},
                  {.name = "forward", .reads = {storage(0)}, .births = {storage(1), storage(3)}, .temporary = 30_KiB},
                  {.name = "backward",
                   .reads = {storage(1), storage(3)},
                   .writes = {storage(1)},
                   .deaths = {storage(1), storage(3)}},
                  {.name = "update", .writes = {storage(0)}, .births = {storage(2)}, .temporary = 1_KiB}}};
}

TEST(Liveness, CountsTheTracesSlabAtEveryOp) {
  trace::Trace trace = example();
  const Liveness without(trace);
  trace.slab = 64_KiB;
  const Liveness with(trace);
  EXPECT_EQ(with.slab(), without.slab() + 64_KiB);
  EXPECT_EQ(with.need(), without.need() + 64_KiB);
  EXPECT_EQ(with.floor(), without.floor() + 64_KiB);
}

TEST(Liveness, AddsUpNeedFloorAndSlab) {
  const Liveness liveness(example());
  EXPECT_EQ(liveness.slab(), 8_KiB);  // storage 3; the small temporary comes after its death
  EXPECT_EQ(liveness.live(0), 128_KiB);
  EXPECT_EQ(liveness.live(1), 180_KiB);  // 30 KiB of temporaries are charged as 32
  EXPECT_EQ(liveness.live(2), 148_KiB);
  EXPECT_EQ(liveness.live(3), 128_KiB);
  EXPECT_EQ(liveness.need(), 180_KiB);
  EXPECT_EQ(liveness.need_op(), 1u);
  EXPECT_EQ(liveness.floor(), 180_KiB);
  EXPECT_EQ(liveness.floor_op(), 1u);
}

TEST(Liveness, NumbersUsesOnceAnOp) {
  const Liveness liveness(example());
  ASSERT_EQ(liveness.uses(storage(1)).size(), 2u);
  EXPECT_EQ(liveness.uses(storage(1))[1].op, 2u);
  EXPECT_TRUE(liveness.uses(storage(1))[1].write);
  EXPECT_FALSE(liveness.uses(storage(0))[0].write);
  EXPECT_TRUE(liveness.uses(storage(3)).empty());
  EXPECT_EQ(liveness.touches(1).size(), 2u);
  EXPECT_EQ(liveness.life(storage(2)).birth, 3u);
  EXPECT_EQ(liveness.life(storage(2)).death, 0u);
}

TEST(Liveness, KnowsHowLongAStorageIsIdleAfterAUse) {
  const Liveness liveness(example());
  const auto expect = [&](std::size_t id, std::size_t used, std::int64_t until, bool dies) {
    const Idle idle = liveness.idle_after(storage(id), used);
    EXPECT_EQ(idle.until, until) << id << ", " << used;
    EXPECT_EQ(idle.dies, dies) << id << ", " << used;
  };
  expect(0, 1, 3, false);
  expect(0, 2, 4 + 1, false);  // in the next window
  expect(1, 1, 2, false);
  expect(1, 2, 2, true);
  expect(2, 0, 0, true);  // what comes next is the birth of another life
  expect(2, 1, 4 + 0, true);
  expect(3, 0, 5 * 4, false);  // never paged, so it has no uses
}

TEST(Liveness, NeedIsTheFloorOfAnUnpagedRandomTraceOrAboveIt) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const Liveness liveness(random_trace(seed));
    ASSERT_GE(liveness.need(), liveness.floor()) << "seed " << seed;
    ASSERT_EQ(liveness.live(liveness.need_op()), liveness.need()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tensorpager::plan
