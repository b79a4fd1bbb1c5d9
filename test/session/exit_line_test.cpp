#include "tensorpager/session/exit_line.h"

#include <gtest/gtest.h>

namespace tensorpager::session {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A process that paged.
Ending trained() {
  return {.counts = {.budget_bytes = 15 * kMiB,
                     .peak_bytes = 14 * kMiB,
                     .need_bytes = 40 * kMiB,
                     .floor_bytes = 5 * kMiB,
                     .page_outs = 130,
                     .page_ins = 123,
                     .page_out_bytes = 44 * kMiB,
                     .page_in_bytes = 43 * kMiB,
                     .stall_seconds = 0.34},
          .wall_seconds = 6.04};
}

TEST(ExitLine, TellsNeedBudgetPeakAndWhatWasPaged) {
  EXPECT_EQ(exit_line(trained()),
            "need 40.0 MiB, budget 15.0 MiB, peak 14.0 MiB (floor 5.00 MiB); 130 page-outs 44.0 MiB, 123 page-ins "
            "43.0 MiB; stalled 0.3 of 6.0 s");
}

TEST(ExitLine, CallsABudgetThatLimitsNothingUnlimited) {
  Ending ending = trained();
  ending.counts.budget_bytes = std::uint64_t{1} << 60;
  EXPECT_EQ(exit_line(ending).substr(0, 35), "need 40.0 MiB, budget unlimited, pe");
}

TEST(ExitLine, TellsOfBytesThatArePinnedAndOverAndOutsideTheBudgetAtItsEnd) {
  Ending ending = trained();
  ending.counts.over_budget_bytes = 2 * kMiB;
  ending.counts.pinned_bytes = 4 * kMiB;
  ending.outside_budget_bytes = 3 * kMiB;
  EXPECT_TRUE(exit_line(ending).ends_with(
      " of 6.0 s; pinned 4.00 MiB; OVER BUDGET by 2.00 MiB; 3.00 MiB of foreign memory outside the budget"))
      << exit_line(ending);
}

TEST(ExitLine, SaysThatAProcessOnlyStartedOthersAndWhatTheseDid) {
  Ending ending{.counts = {.budget_bytes = kMiB}};
  EXPECT_EQ(exit_line(ending), "budget 1.00 MiB; no tensors in this process");
  ending.children = {.children = 2,
                     .need_bytes = 4 * kMiB,
                     .peak_bytes = kMiB,
                     .page_outs = 9,
                     .page_out_bytes = 6 * kMiB,
                     .page_ins = 8,
                     .page_in_bytes = 5 * kMiB,
                     .stall_seconds = 1.25};
  EXPECT_EQ(exit_line(ending),
            "budget 1.00 MiB; no tensors in this process; 2 child processes: need at most 4.00 MiB, peak at most 1.00 "
            "MiB; 9 page-outs 6.00 MiB, 8 page-ins 5.00 MiB; stalled 1.2 s");
}

TEST(ExitLine, CountsOneChildInTheSingularAndTellsOfItsExcess) {
  Ending ending = trained();
  ending.children = {.children = 1, .over_budget_bytes = kMiB};
  EXPECT_NE(exit_line(ending).find("; 1 child process: need at most 0 B, "), std::string::npos) << exit_line(ending);
  EXPECT_TRUE(exit_line(ending).ends_with("; stalled 0.0 s; OVER BUDGET by 1.00 MiB")) << exit_line(ending);
}

TEST(ExitLine, NamesTheRankFirst) {
  Ending ending = trained();
  ending.rank = "3";
  EXPECT_EQ(exit_line(ending), "rank 3: " + exit_line(trained()));
}

}  // namespace
}  // namespace tensorpager::session
