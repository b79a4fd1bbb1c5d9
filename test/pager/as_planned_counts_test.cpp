#include "tensorpager/pager/as_planned_counts.h"

#include <gtest/gtest.h>

namespace tensorpager::pager {
namespace {

using base::Bytes;

constexpr std::uint32_t kOps = 3;  // of a window

class AsPlannedCountsTest : public testing::Test {
 protected:
  void run_op(Bytes charged) {
    as_planned_.op_begins(kPlanned, charged);
    as_planned_.op_ends(kPlanned, charged);
  }
  /// `differing`: its op at which more is charged than planned; `compared`: that in which a replay is compared.
  void run_window(std::optional<std::uint32_t> differing = {}, std::optional<std::uint32_t> compared = {}) {
    for (std::uint32_t op = 0; op < kOps; ++op) {
      if (op == compared) as_planned_.note_comparison();
      run_op(op == differing ? kPlanned + kPlanned : kPlanned);
      as_planned_.note_window(op == kOps - 1 ? kOps : 0);
    }
  }

  static constexpr Bytes kPlanned{4096};
  Statistics counts_;
  AsPlannedCounts as_planned_{counts_};
};

TEST_F(AsPlannedCountsTest, CountsWindowsEachOpOfWhichWasAsPlanned) {
  run_window();
  run_window(1);
  run_window();
  EXPECT_EQ(counts_.followed_windows, 3u);
  EXPECT_EQ(counts_.windows_as_planned, 2u);
  EXPECT_EQ(counts_.windows_of_comparisons, 0u);
  EXPECT_EQ(counts_.ops_as_planned, 8u);
}

TEST_F(AsPlannedCountsTest, TellsApartWindowsInWhichAReplayWasCompared) {
  run_window(1, 0);
  run_window(2, 2);
  run_window(0);  // in this none is
  EXPECT_EQ(counts_.windows_as_planned, 0u);
  EXPECT_EQ(counts_.windows_of_comparisons, 2u);
}

TEST_F(AsPlannedCountsTest, CountsAWindowAsPlannedThoughAReplayWasCompared) {
  run_window({}, 1);
  EXPECT_EQ(counts_.windows_as_planned, 1u);
  EXPECT_EQ(counts_.windows_of_comparisons, 0u);
}

}  // namespace
}  // namespace tensorpager::pager
