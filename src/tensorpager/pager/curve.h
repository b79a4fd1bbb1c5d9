// Live and charged bytes over op index, in a bounded number of points: each point is the largest value of its stretch
// of ops, and stretches double when the points are used up. A peak is never lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::pager {

class Curve {
 public:
  struct Point {
    std::uint64_t op = 0;  // first op of the stretch
    base::Bytes live;
    base::Bytes charged;
  };
  static constexpr std::size_t kMostPoints = 4096;

  void note(std::uint64_t op, base::Bytes live, base::Bytes charged) {
    // If few ops note anything, one halving may not be enough; and one may leave `op` in the last stretch there is.
    while (starts_stretch(op) && points_.size() == kMostPoints) halve();
    if (starts_stretch(op)) {
      points_.push_back({op / stretch_ * stretch_, live, charged});
      return;
    }
    points_.back().live = std::max(points_.back().live, live);
    points_.back().charged = std::max(points_.back().charged, charged);
  }

  const std::vector<Point>& points() const { return points_; }

 private:
  bool starts_stretch(std::uint64_t op) const {
    return points_.empty() || points_.back().op < op / stretch_ * stretch_;
  }
  void halve() {
    stretch_ *= 2;
    std::vector<Point> merged;
    merged.reserve(kMostPoints);
    for (Point point : points_) {
      point.op = point.op / stretch_ * stretch_;
      if (merged.empty() || merged.back().op < point.op) {
        merged.push_back(point);
      } else {
        merged.back().live = std::max(merged.back().live, point.live);
        merged.back().charged = std::max(merged.back().charged, point.charged);
      }
    }
    points_ = std::move(merged);
  }

  std::uint64_t stretch_ = 1;
  std::vector<Point> points_;
};

}  // namespace tensorpager::pager
