// Peng, Shi, Dai, Jin, Ma, Xiong, Yang, Qian: Capuchin, 2020.
//
// The accesses to tensors are measured. A tensor's free time is what is left between two accesses when it is swapped
// out after the first and in before the second. First tensors are swapped whose swaps are hidden, the longest free time
// first, with one swap at a time on each link; then, for each tensor, the swap or the recomputation that costs less.
// A swap-in is triggered early enough for its access.
#include <algorithm>
#include <optional>
#include <utility>

#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"
#include "tensorpager/planning/recomputation.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

/// Swaps in the order of the accesses, one at a time on each link.
class Lanes {
 public:
  explicit Lanes(const Groundwork& groundwork) : groundwork_(groundwork) {}

  /// By how much the swaps are longer than the time that they have, with one more.
  Nanoseconds exposed_with(const FeatureMap& map) const {
    Lanes with = *this;
    with.add(map);
    return with.exposed();
  }

  void add(const FeatureMap& map) {
    swapped_.insert(std::ranges::upper_bound(swapped_, map.last_forward, {}, &FeatureMap::last_forward), map);
  }

 private:
  Nanoseconds exposed() const {
    const Machine& machine = groundwork_.problem.machine;
    std::vector<std::pair<std::uint32_t, std::size_t>> by_access;  // the second access, number
    std::vector<Nanoseconds> out_end;
    Nanoseconds time{0};
    for (std::size_t i = 0; i < swapped_.size(); ++i) {
      time = std::max(time, groundwork_.starts[swapped_[i].last_forward + 1]) +
             machine.out.time_of(base::Bytes(swapped_[i].bytes));
      out_end.push_back(time);
      by_access.emplace_back(swapped_[i].first_backward, i);
    }
    std::ranges::sort(by_access, std::greater());
    time = groundwork_.starts.back();
    Nanoseconds most{0};
    for (const auto& [access, i] : by_access) {
      time = std::min(time, groundwork_.starts[access]) - machine.in.time_of(base::Bytes(swapped_[i].bytes));
      most = std::max(most, out_end[i] - time);
    }
    return most;
  }

  const Groundwork& groundwork_;
  std::vector<FeatureMap> swapped_;  // by first access
};

class CapuchinPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "capuchin");
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    const Recomputation recomputation(problem.trace, groundwork.liveness, groundwork.op_times);
    Quickest quickest;
    for (const Drop drop : {Drop::kOnce, Drop::kAgain}) {
      quickest.offer(plan_for_less(
          problem, "capuchin", [&](std::uint64_t budget) { return decide(groundwork, recomputation, budget, drop); }));
    }
    return quickest.take();
  }

 private:
  static Nanoseconds free_time(const Groundwork& groundwork, const FeatureMap& map) {
    const Machine& machine = groundwork.problem.machine;
    const base::Bytes bytes(map.bytes);
    return groundwork.starts[map.first_backward] - groundwork.starts[map.last_forward + 1] -
           machine.out.time_of(bytes) - machine.in.time_of(bytes);
  }

  /// The gap of a map that the backward pass ends.
  static std::optional<std::uint32_t> gap_of(const Recomputation& recomputation, const FeatureMap& map) {
    const auto& gaps = recomputation.droppable();
    const auto is_its = [&](const Droppable& gap) {
      return gap.storage == map.storage && gap.to == map.first_backward;
    };
    const auto found = std::ranges::find_if(gaps, is_its);
    if (found == gaps.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - gaps.begin());
  }

  static Decisions decide(const Groundwork& groundwork, const Recomputation& recomputation, std::uint64_t target,
                          Drop drop) {
    std::vector<FeatureMap> maps = feature_maps(groundwork.problem.trace, groundwork.liveness);
    std::ranges::stable_sort(maps, std::greater(), [&](const FeatureMap& map) { return free_time(groundwork, map); });
    std::vector<std::int64_t> live(groundwork.liveness.ops());
    for (std::uint32_t op = 0; op < live.size(); ++op)
      live[op] = static_cast<std::int64_t>(groundwork.liveness.live(op).count());
    SegmentTree left(live);
    const auto is_enough = [&] { return left.largest() <= static_cast<std::int64_t>(target); };
    const auto take = [&](const FeatureMap& map) {
      left.add(map.last_forward + 1, map.first_backward, -static_cast<std::int64_t>(map.bytes));
    };
    Decisions decisions;
    Lanes lanes(groundwork);
    const auto swap = [&](const FeatureMap& map) {
      decisions.page_out(map);
      lanes.add(map);
      take(map);
    };
    std::vector<FeatureMap> exposed;
    for (const FeatureMap& map : maps) {
      if (is_enough()) break;
      if (lanes.exposed_with(map) > Nanoseconds(0))
        exposed.push_back(map);
      else
        swap(map);
    }
    std::vector<Drop> dropped(recomputation.droppable().size());
    Nanoseconds swaps{0};
    for (const FeatureMap& map : exposed) {
      if (is_enough()) break;
      const auto gap = gap_of(recomputation, map);
      const Nanoseconds with = lanes.exposed_with(map);
      if (gap && recomputation.droppable()[*gap].cost < with - swaps) {
        dropped[*gap] = drop;
        take(map);
      } else {
        swap(map);
        swaps = with;
      }
    }
    auto replays = recomputation.replays(dropped, kMostReplaysAnOp * groundwork.liveness.ops(), Arguments::kFreed);
    if (replays) decisions.replays = std::move(*replays);
    return decisions;
  }
};

}  // namespace

std::unique_ptr<Planner> make_capuchin_planner() { return std::make_unique<CapuchinPlanner>(); }

}  // namespace tensorpager::planning
