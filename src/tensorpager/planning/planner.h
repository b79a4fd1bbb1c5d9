// The interface of planners. To add one: planners/x_planner.cpp, its line in planner.cpp, and its line in
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

/// A switch for each technique of the planners `pages` and `hybrid`, to measure its worth.
struct Techniques {
  bool early_page_outs = true;  // after the last use; else where the room is needed
  bool prefetch = true;         // else a page-in is submitted where it is needed
  bool tails = true;            // packing keeps blocks for the time that their page-outs take
  bool wrap = true;             // storages may be resident at the window's ends
  bool larger_first = true;     // larger storages go first, if the CPU time of transfers costs compute
  bool longest_idle = true;     // also evict what is idle for longest, and take the quicker plan
  bool feedback = true;         // plan for less where packing needs more
  bool shorter_tails = true;    // give up tails where packing needs more
  bool over_transfers = true;   // place blocks where transfers of others are under way
  bool early_online = true;     // place online also where the plans found are slow; else only if there is none
  bool compaction = true;       // pack the quickest plans once more, closer together
  PackingEffort packing = {};
  bool replays_for_less = true;  // choose what is dropped for less again, where placing makes plans slower than judged
  std::size_t annealing = 2'000'000;  // ops of all windows that are judged to better the choice of what is dropped
};

struct Options {
  double link_share = 0.75;  // the share of the machine's link rates that is planned with: real rates vary
  double reserve = 0.02;     // share of the budget, for unplanned blocks; less if the floor is near
  Techniques techniques = {};
  unsigned threads = 1;  // that plan at once; the plan does not depend on it
};

struct Problem {
  const trace::Trace& trace;
  const Machine& machine;
  base::Bytes budget;
  Options options = {};
  const BoundaryTable* boundary = nullptr;  // what the window begins and ends with; null: whatever is best for it
};

struct Infeasible {
  base::Bytes short_by;       // by how much the budget is too small
  std::uint32_t op;           // the op at which it is
  bool for_boundary = false;  // there is a plan without the boundary table
};

class Planner {
 public:
  virtual ~Planner() = default;

  /// Any budget from the floor on gets a plan from a planner that pages. Only `pages` and `hybrid` take a boundary
  /// table; the others throw InvalidArgument.
  virtual base::Result<Plan, Infeasible> plan(const Problem& problem) const = 0;
};

std::unique_ptr<Planner> make_resident_planner();   // nothing moves: only offsets
std::unique_ptr<Planner> make_lru_planner();        // as on demand: least recently used goes, all waits
std::unique_ptr<Planner> make_pages_planner();      // planned movement, without recomputation
std::unique_ptr<Planner> make_recompute_planner();  // replays, and nothing moves
std::unique_ptr<Planner> make_hybrid_planner();     // planned movement and replays, whichever costs less
/// All that replays can rebuild is dropped, whatever that costs, and the rest is paged: for tests of replays.
std::unique_ptr<Planner> make_recompute_all_planner();

/// Throws InvalidArgument with all names, if there is no such planner.
std::unique_ptr<Planner> make_planner(const std::string& name);
std::vector<std::string> planner_names();

/// Throws InvalidArgument if the problem has a boundary table.
void require_no_boundary(const Problem& problem, const char* planner);

/// A problem with values that every planner needs first.
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
  /// Completes a plan whose rows have offsets and waits: only the prediction is left to compute.
  Plan finish(std::string planner, std::vector<Row> rows, Technique technique = Technique::kNone) const;
};

}  // namespace tensorpager::planning
