// The rows of a plan that are resident while an op runs, found without reading all others: for each run of 64 ops the
// rows that are resident in any of them are listed. Made once, and never changed.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/follow/names.h"

namespace tensorpager::follow {

class ResidentRows {
 public:
  explicit ResidentRows(const Plan& plan);

  /// The rows, by number, that are resident at this op or within 64 ops of it, by offset.
  const std::vector<std::uint32_t>& near(std::uint32_t op) const { return runs_[op / kOpsOfRun]; }
  /// The end of the highest row of all.
  std::uint64_t top() const { return top_; }

 private:
  static constexpr std::uint32_t kOpsOfRun = 64;  // more: longer lists; fewer: more lists with the same rows

  std::vector<std::vector<std::uint32_t>> runs_;
  std::uint64_t top_;
};

}  // namespace tensorpager::follow
