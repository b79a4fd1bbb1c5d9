// What every planner answers. To add one: x_planner.cpp beside this file, its line in planner.cpp, and its line in
// test/planning/planner_contract_test.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/result.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/planning/names.h"
#include "tensorpager/planning/packing/packing.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::planning {

/// Every technique of the `pages` planner has a switch, to measure what it is worth.
struct Techniques {
  bool early_page_outs = true;  // after the last use; else where the room is needed
  bool prefetch = true;         // else a page-in is submitted where it is needed
  bool tails = true;            // packing keeps blocks for the time that their page-outs take
  bool wrap = true;             // storages may be resident at the window's ends
  bool larger_first = true;     // larger storages go first, where handling each transfer takes of compute
  bool feedback = true;         // plan for less where packing needs more
  PackingEffort packing = {};
};

struct Options {
  double link_share = 0.75;  // of the machine's links that is planned with: real ones vary
  double reserve = 0.02;     // of the budget, for blocks that no plan knows; less where the floor is near
  Techniques techniques = {};
};

struct BoundaryTable;

struct Problem {
  const trace::Trace& trace;
  const Machine& machine;
  base::Bytes budget;
  Options options = {};
  const BoundaryTable* boundary = nullptr;  // what the window begins and ends with; else whatever is best for it alone
};

struct Infeasible {
  base::Bytes short_by;       // by how much the budget is too small
  std::uint32_t op;           // where
  bool for_boundary = false;  // without the boundary table there is a plan
};

class Planner {
 public:
  virtual ~Planner() = default;

  /// Any budget from the floor on gets a plan from a planner that pages. Only `pages` takes a boundary table; the
  /// others throw InvalidArgument.
  virtual base::Result<Plan, Infeasible> plan(const Problem& problem) const = 0;
};

std::unique_ptr<Planner> make_resident_planner();  // nothing moves: only offsets
std::unique_ptr<Planner> make_lru_planner();       // what on demand would do: the least recently used goes, all waits
std::unique_ptr<Planner> make_pages_planner();     // planned movement, without recomputation

/// Throws InvalidArgument naming those there are.
std::unique_ptr<Planner> make_planner(const std::string& name);
std::vector<std::string> planner_names();

/// Throws InvalidArgument where the problem has a boundary table.
void require_no_boundary(const Problem& problem, const char* planner);

/// A problem with what every planner looks up first.
struct Groundwork {
  explicit Groundwork(const Problem& problem);

  const Problem& problem;
  Liveness liveness;
  std::vector<Nanoseconds> op_times;
  std::vector<Nanoseconds> starts;  // of ops, if nothing stalls; then the window's end
  base::Bytes reserve;

  bool is_below_floor() const { return problem.budget < liveness.floor(); }
  Infeasible below_floor() const { return {liveness.floor() - problem.budget, liveness.floor_op()}; }
  /// For blocks with an offset: whole granules.
  std::uint64_t space() const {
    const std::uint64_t left = (problem.budget - liveness.slab() - reserve).count();
    return left - left % problem.trace.granule.count();
  }
  /// With offsets and waits set: what is left is to predict.
  Plan finish(std::string planner, std::vector<Row> rows) const;
};

}  // namespace tensorpager::planning
