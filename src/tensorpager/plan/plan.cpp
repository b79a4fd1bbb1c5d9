#include "tensorpager/plan/plan.h"

#include <algorithm>

namespace tensorpager::plan {

base::Bytes Plan::top() const {
  std::uint64_t top = 0;
  for (const Row& row : rows) top = std::max(top, row.offset + row.bytes.count());
  return base::Bytes(top);
}

std::vector<std::uint32_t> page_outs_of(const std::vector<Row>& rows) {
  std::vector<std::uint32_t> page_outs;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].leave == Leave::kPageOut) page_outs.push_back(i);
  }
  std::ranges::stable_sort(page_outs, {}, [&](std::uint32_t i) { return rows[i].end; });
  return page_outs;
}

}  // namespace tensorpager::plan
