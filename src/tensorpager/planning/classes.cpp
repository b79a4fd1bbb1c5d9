#include "tensorpager/planning/classes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::planning {
namespace {

/// The table without storages that a trace lacks.
BoundaryTable known_to_all(const BoundaryTable& table, const std::vector<Problem>& problems) {
  BoundaryTable known = table;
  for (const Problem& problem : problems) {
    std::set<std::uint64_t> identities;
    for (const trace::Storage& storage : problem.trace.storages) {
      if (storage.identity && storage.entry) identities.insert(*storage.identity);
    }
    std::erase_if(known.entries, [&](const BoundaryEntry& entry) { return !identities.contains(entry.identity); });
  }
  std::uint64_t top = 0;
  for (BoundaryEntry& entry : known.entries) entry.offset = std::exchange(top, top + entry.bytes.count());
  return known;
}

/// Returns nullopt if a class does not place; `why` then has the missing bytes, unless the table is the cause.
std::optional<std::vector<Plan>> plan_all(const std::vector<Problem>& problems, const std::string& planner,
                                          const BoundaryTable& table, std::optional<Infeasible>& why) {
  std::vector<Plan> plans;
  for (Problem problem : problems) {
    problem.boundary = &table;
    auto result = make_planner(planner)->plan(problem);
    if (!result) {
      if (!result.error().for_boundary) why = result.error();
      return std::nullopt;
    }
    plans.push_back(std::move(result.value()));
  }
  return plans;
}

}  // namespace

base::Result<ClassPlans, Infeasible> plan_classes(const std::vector<Problem>& problems, const std::string& planner) {
  TENSORPAGER_CHECK(!problems.empty());
  const auto hardness = [](const Problem& problem) {
    const auto need = static_cast<double>(Liveness(problem.trace).need().count());
    return need / static_cast<double>(std::max<std::uint64_t>(problem.budget.count(), 1));
  };
  const Problem& hardest = *std::ranges::max_element(problems, {}, hardness);
  const auto own = make_pages_planner()->plan(hardest);
  if (!own) return own.error();
  ClassPlans found{.table = known_to_all(boundary_of(hardest.trace, own.value()), problems)};
  for (;; found.table = half_of(found.table)) {
    std::optional<Infeasible> why;
    auto plans = plan_all(problems, planner, found.table, why);
    if (why) return *why;
    if (!plans) {
      // Without a table every window begins with nothing resident, which always places.
      TENSORPAGER_CHECK(!found.table.entries.empty());
      continue;
    }
    found.plans = std::move(*plans);
    return found;
  }
}

}  // namespace tensorpager::planning
