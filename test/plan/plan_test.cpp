#include "tensorpager/plan/plan.h"

#include <gtest/gtest.h>

namespace tensorpager::plan {
namespace {

using namespace base;

constexpr std::uint32_t kOps = 10;

Row row(std::uint32_t storage, Bytes bytes, std::uint32_t begin, std::uint32_t end, Fill fill, Leave leave) {
  return {.storage = StorageId{storage}, .bytes = bytes, .begin = begin, .end = end, .fill = fill, .leave = leave};
}

TEST(HostBytes, LastFromThePageOutToTheDeath) {
  Plan plan{.ops = kOps};
  EXPECT_EQ(host_bytes(plan), 0_B);
  plan.rows = {row(0, 100_B, 1, 4, Fill::kBorn, Leave::kPageOut), row(0, 100_B, 6, 8, Fill::kPageIn, Leave::kDies),
               row(1, 50_B, 2, 7, Fill::kBorn, Leave::kPageOut), row(1, 50_B, 9, 10, Fill::kPageIn, Leave::kDies)};
  EXPECT_EQ(host_bytes(plan), 150_B) << "one from op 4 to 8, the other from 7 to 10";
  plan.rows[1].end = 7;
  EXPECT_EQ(host_bytes(plan), 100_B);
}

TEST(HostBytes, AreThoseOfLaterWindowsForWhatLivesOn) {
  // It leaves after its slot was written in a window before, and is never written again.
  Plan plan{.ops = kOps, .rows = {row(0, 100_B, 0, 3, Fill::kBoundary, Leave::kDrop)}};
  plan.rows.push_back(row(0, 100_B, 5, kOps, Fill::kPageIn, Leave::kBoundary));
  plan.rows.push_back(row(1, 50_B, 0, 2, Fill::kBorn, Leave::kPageOut));
  plan.rows.push_back(row(1, 50_B, 2, 3, Fill::kPageIn, Leave::kDies));
  EXPECT_EQ(host_bytes(plan), 150_B);
}

TEST(HostBytes, AreNotOfTemporaries) {
  const Plan plan{.ops = kOps, .rows = {row(trace::index(kTemporary), 70_B, 1, 2, Fill::kBorn, Leave::kPageOut)}};
  EXPECT_EQ(host_bytes(plan), 0_B);
}

}  // namespace
}  // namespace tensorpager::plan
