#include "tensorpager/pager/curve.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tensorpager::pager {
namespace {

using namespace base;

TEST(Curve, KeepsTheLargestValuesOfAnOp) {
  Curve curve;
  curve.note(3, 10_B, 50_B);
  curve.note(3, 30_B, 20_B);
  curve.note(3, 20_B, 40_B);
  curve.note(5, 1_B, 2_B);
  ASSERT_EQ(curve.points().size(), 2u);
  EXPECT_EQ(curve.points()[0].op, 3u);
  EXPECT_EQ(curve.points()[0].live, 30_B);
  EXPECT_EQ(curve.points()[0].charged, 50_B);
  EXPECT_EQ(curve.points()[1].op, 5u);
}

/// Notes ops `stride` apart from `first` on, with one peak at a random op, and looks for it.
void expect_bounded_and_peak_kept(std::uint64_t first, std::uint64_t stride, std::uint64_t notes) {
  SCOPED_TRACE("ops from " + std::to_string(first) + " in steps of " + std::to_string(stride));
  std::mt19937_64 random(first + stride);
  const std::uint64_t peak_op = first + random() % notes * stride;
  Curve curve;
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < notes; ++i) {
    const std::uint64_t op = first + i * stride;
    curve.note(op, op == peak_op ? 1_TiB : Bytes(op), op == peak_op ? 2_TiB : Bytes(op));
    ASSERT_LE(curve.points().size(), Curve::kMostPoints);
    last = op;
  }
  const std::vector<Curve::Point>& points = curve.points();
  for (std::size_t i = 1; i < points.size(); ++i) ASSERT_LT(points[i - 1].op, points[i].op) << "a stretch comes twice";
  std::size_t peaks = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].live != 1_TiB) continue;
    ++peaks;
    EXPECT_EQ(points[i].charged, 2_TiB);
    EXPECT_LE(points[i].op, peak_op);
    EXPECT_TRUE(i + 1 == points.size() || points[i + 1].op > peak_op);
  }
  EXPECT_EQ(peaks, 1u);
  EXPECT_LE(points.back().op, last);
  EXPECT_GE(points.back().live, Bytes(last));
}

TEST(Curve, NeverLosesAPeakWhileItHalves) {
  for (const std::uint64_t first : {0, 1, 3, 1000}) expect_bounded_and_peak_kept(first, 1, 100'000);
}

TEST(Curve, StaysBoundedWhereMostOpsNoteNothing) {
  for (const std::uint64_t stride : {2, 3, 5, 100, 1'000'003}) expect_bounded_and_peak_kept(1, stride, 20'000);
}

}  // namespace
}  // namespace tensorpager::pager
