#include "tensorpager/follow/planned_page_outs.h"

#include <gtest/gtest.h>

#include "small_plan.h"

namespace tensorpager::follow {
namespace {

using namespace base;

TEST(PlannedPageOuts, HaveTicketsByRow) {
  const PlannedPageOuts page_outs(small_plan());
  EXPECT_EQ(page_outs.ticket(0), 0u);
  EXPECT_EQ(page_outs.ticket(1), 1u);
  EXPECT_EQ(page_outs.ticket(2), 0u);
}

TEST(PlannedPageOuts, AreUnderWayUntilTheyAreAwaited) {
  const PlannedPageOuts page_outs(small_plan());
  EXPECT_TRUE(page_outs.under_way(0).empty());
  ASSERT_EQ(page_outs.under_way(1).size(), 1u);
  EXPECT_EQ(page_outs.under_way(1)[0].bytes, 20_KiB);
  EXPECT_EQ(page_outs.under_way(1)[0].until, 2u);
  EXPECT_TRUE(page_outs.under_way(2).empty());
}

// The weight leaves after op 1, and what is made at op 0 of the next window waits for that.
TEST(PlannedPageOuts, AreUnderWayFromTheWindowBefore) {
  const auto page_outs_with = [&](std::uint32_t birth) {
    return PlannedPageOuts(
        {.ops = 2,
         .rows = {{.storage = kActivation, .bytes = 20_KiB, .begin = birth, .need = birth, .end = 1, .wait = 1},
                  {.storage = kWeight,
                   .bytes = 64_KiB,
                   .begin = 1,
                   .need = 1,
                   .end = 2,
                   .fill = Fill::kPageIn,
                   .leave = Leave::kPageOut}}});
  };
  EXPECT_TRUE(page_outs_with(0).under_way(0).empty()) << "it is awaited there";
  ASSERT_EQ(page_outs_with(1).under_way(0).size(), 1u);
  EXPECT_EQ(page_outs_with(1).under_way(0)[0].until, 1u) << "of this window";
  EXPECT_TRUE(page_outs_with(1).under_way(1).empty());
}

}  // namespace
}  // namespace tensorpager::follow
