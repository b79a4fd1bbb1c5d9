// Kirisame, Lyubomirsky, Haan, Brennan, He, Roesch, Chen, Tatlock: Dynamic Tensor Rematerialization, 2021.
//
// Where an op finds no room, the tensor with the least cost / (size * staleness) is dropped. The cost is that of its op
// and of the dropped neighbours that it takes to rebuild it, or that it would be rebuilt for: sets that are merged when
// a tensor is dropped, and that lose its cost when it is back (their h_DTR_eq). What is dropped is rebuilt where it is
// used next.
//
// DTR decides while it runs. Here it decides in the order of the ops, and its decisions become a plan: a tensor is
// dropped after its last use before, and the rule is asked for less where rebuilding needs more room. What is rebuilt
// as an argument stays until it is used, or is dropped again: either for all, whichever is quicker.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/papers.h"
#include "tensorpager/planning/recomputation.h"

namespace tensorpager::planning {
namespace {

double in_seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// Sets of dropped storages that depend on each other, with what they cost.
class Neighbours {
 public:
  Neighbours(const trace::Trace& trace, const std::vector<Nanoseconds>& op_times)
      : own_(trace.storages.size()),
        cost_(trace.storages.size()),
        parent_(trace.storages.size()),
        near_(trace.storages.size()),
        is_dropped_(trace.storages.size()) {
    std::iota(parent_.begin(), parent_.end(), 0U);
    for (std::size_t op = 0; op < trace.ops.size(); ++op) {
      for (const StorageId born : trace.ops[op].births) {
        own_[trace::index(born)] = in_seconds(op_times[op]);
        for (const StorageId read : trace.ops[op].reads) {
          if (read == born) continue;
          near_[trace::index(born)].push_back(trace::index(read));
          near_[trace::index(read)].push_back(trace::index(born));
        }
      }
    }
  }

  /// Seconds, with all that is dropped next to it.
  double cost(StorageId id) {
    double sum = own_[trace::index(id)];
    std::vector<std::uint32_t> sets;
    for (const std::uint32_t other : near_[trace::index(id)]) {
      if (!is_dropped_[other]) continue;
      const std::uint32_t set = find(other);
      if (std::ranges::find(sets, set) != sets.end()) continue;
      sets.push_back(set);
      sum += cost_[set];
    }
    return sum;
  }

  void drop(StorageId id) {
    const std::uint32_t i = trace::index(id);
    is_dropped_[i] = true;
    cost_[find(i)] += own_[i];
    for (const std::uint32_t other : near_[i]) {
      if (!is_dropped_[other] || find(other) == find(i)) continue;
      cost_[find(i)] += cost_[find(other)];
      parent_[find(other)] = find(i);
    }
  }

  void rebuild(StorageId id) {
    is_dropped_[trace::index(id)] = false;
    cost_[find(trace::index(id))] -= own_[trace::index(id)];
  }

 private:
  std::uint32_t find(std::uint32_t i) {
    for (; parent_[i] != i; i = parent_[i]) parent_[i] = parent_[parent_[i]];
    return i;
  }

  std::vector<double> own_, cost_;  // seconds: of a storage; of a set, by its root
  std::vector<std::uint32_t> parent_;
  std::vector<std::vector<std::uint32_t>> near_;
  std::vector<bool> is_dropped_;
};

class DtrPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "dtr");
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    const Recomputation recomputation(problem.trace, groundwork.liveness, groundwork.op_times);
    Quickest quickest;
    for (const Drop drop : {Drop::kOnce, Drop::kAgain}) {
      quickest.offer(plan_for_less(problem, "dtr", [&](std::uint64_t budget) {
        const std::vector<Drop> dropped = drops(groundwork, recomputation, budget, drop);
        const std::size_t most = kMostReplaysAnOp * groundwork.liveness.ops();
        auto replays = recomputation.replays(dropped, most, Arguments::kFreed);
        return Decisions{.replays = replays ? std::move(*replays) : std::vector<Replay>()};
      }));
    }
    return quickest.take();
  }

 private:
  /// By number of droppable().
  static std::vector<Drop> drops(const Groundwork& groundwork, const Recomputation& recomputation, std::uint64_t target,
                                 Drop drop) {
    const auto& gaps = recomputation.droppable();
    std::vector<std::vector<std::uint32_t>> begin(groundwork.liveness.ops() + 1), end(groundwork.liveness.ops() + 1);
    for (std::uint32_t i = 0; i < gaps.size(); ++i) {
      begin[gaps[i].from + 1].push_back(i);
      end[gaps[i].to].push_back(i);
    }
    Neighbours neighbours(groundwork.problem.trace, groundwork.op_times);
    std::vector<Drop> dropped(gaps.size());
    std::vector<std::uint32_t> idle;  // gaps of storages that are resident and not used
    std::uint64_t gone = 0;           // bytes
    for (std::uint32_t op = 0; op < groundwork.liveness.ops(); ++op) {
      for (const std::uint32_t i : end[op]) {
        std::erase(idle, i);
        if (dropped[i] == Drop::kKept) continue;
        gone -= gaps[i].bytes;
        neighbours.rebuild(gaps[i].storage);
      }
      idle.insert(idle.end(), begin[op].begin(), begin[op].end());
      while (groundwork.liveness.live(op).count() > target + gone && !idle.empty()) {
        const auto worth = [&](std::uint32_t i) {
          const double stale = in_seconds(groundwork.starts[op] - groundwork.starts[gaps[i].from]) + 1e-9;
          return neighbours.cost(gaps[i].storage) / (static_cast<double>(gaps[i].bytes) * stale);
        };
        const auto victim = std::ranges::min_element(idle, {}, worth);
        dropped[*victim] = drop;
        gone += gaps[*victim].bytes;
        neighbours.drop(gaps[*victim].storage);
        idle.erase(victim);
      }
    }
    return dropped;
  }
};

}  // namespace

std::unique_ptr<Planner> make_dtr_planner() { return std::make_unique<DtrPlanner>(); }

}  // namespace tensorpager::planning
