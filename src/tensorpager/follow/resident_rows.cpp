#include "tensorpager/follow/resident_rows.h"

#include <algorithm>
#include <numeric>

namespace tensorpager::follow {

ResidentRows::ResidentRows(const Plan& plan) : runs_(plan.ops / kOpsOfRun + 1), top_(plan.top().count()) {
  std::vector<std::uint32_t> rows(plan.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::sort(rows, {}, [&](std::uint32_t i) { return plan.rows[i].offset; });
  for (const std::uint32_t i : rows) {
    const Row& row = plan.rows[i];
    if (row.begin == row.end) continue;
    for (std::uint32_t run = row.begin / kOpsOfRun; run <= (row.end - 1) / kOpsOfRun; ++run) runs_[run].push_back(i);
  }
}

}  // namespace tensorpager::follow
