#include "tensorpager/follow/planned_page_outs.h"

#include "tensorpager/plan/timing.h"

namespace tensorpager::follow {

PlannedPageOuts::PlannedPageOuts(const Plan& plan) : tickets_(plan.rows.size()), ops_(plan.ops) {
  const std::vector<std::uint32_t> awaited = release_ops(plan.rows, plan.ops);
  for (const std::uint32_t row : page_outs_of(plan.rows)) {
    page_outs_.push_back({plan.rows[row].bytes, plan.rows[row].end, awaited[page_outs_.size()]});
    tickets_[row] = static_cast<std::uint32_t>(page_outs_.size());
  }
}

std::vector<PlannedPageOuts::UnderWay> PlannedPageOuts::under_way(std::uint32_t op) const {
  std::vector<UnderWay> under_way;
  for (const PageOut& one : page_outs_) {
    const std::uint32_t before = one.begin <= op ? 0 : ops_;  // of the window before
    if (op + before < one.awaited) under_way.push_back({one.bytes, one.awaited - before});
  }
  return under_way;
}

}  // namespace tensorpager::follow
