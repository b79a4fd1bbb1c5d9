#include "tensorpager/planning/peak_shaving.h"

#include <algorithm>
#include <numeric>

#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

/// How many dropped bytes are rebuilt near an op, over the target.
class Crowd {
 public:
  /// `weight`: how much it counts; 0: not at all.
  Crowd(std::size_t ops, double weight, double target)
      : weight_(weight), target_(target), reach_(static_cast<std::uint32_t>(ops / 20 + 1)), around_(ops) {}

  void add(const Droppable& gap) {
    if (weight_ == 0) return;
    const std::size_t end = std::min<std::size_t>(gap.to + reach_, around_.size());
    for (std::size_t at = gap.to > reach_ ? gap.to - reach_ : 0; at < end; ++at)
      around_[at] += static_cast<double>(gap.bytes) / target_;
  }

  /// By which a gap's cost counts more, at least 1.
  double factor(const Droppable& gap) const { return 1 + weight_ * around_[gap.to] * around_[gap.to]; }

 private:
  double weight_, target_;
  std::uint32_t reach_;  // ops each way
  std::vector<double> around_;
};

}  // namespace

PeakShaving::PeakShaving(const Groundwork& groundwork, const std::vector<Droppable>& gaps)
    : liveness_(groundwork.liveness), gaps_(gaps) {
  const Nanoseconds handling = groundwork.problem.machine.out.handling + groundwork.problem.machine.in.handling;
  for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore}) {
    auto& costs = costs_[static_cast<std::size_t>(arguments)];
    for (const Droppable& gap : gaps) {
      const Nanoseconds cost = (arguments == Arguments::kFreed ? gap.cost : gap.shared) + handling;
      costs.push_back((std::chrono::duration<double>(cost).count() + 1e-9) / static_cast<double>(gap.bytes));
    }
    auto& order = by_ratio_[static_cast<std::size_t>(arguments)];
    order.resize(gaps.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&costs](std::uint32_t i) { return costs[i]; });
  }
}

/// Goes to the op with the most live bytes again and again, and drops the storage that is idle there for which it pays
/// most: of two that cost the same for each byte that is lacking, the one that is rebuilt away from others.
std::vector<Drop> PeakShaving::shaved(std::vector<Drop> dropped, const std::vector<double>& costs, std::uint64_t target,
                                      double weight) const {
  Crowd crowd(liveness_.ops(), weight, static_cast<double>(target));
  std::vector<std::uint32_t> kept;  // the cheapest first, but for the crowd
  for (std::uint32_t i = 0; i < gaps_.size(); ++i) {
    if (dropped[i] != Drop::kKept)
      crowd.add(gaps_[i]);
    else
      kept.push_back(i);
  }
  std::ranges::stable_sort(kept, {}, [&](std::uint32_t i) { return costs[i]; });
  SegmentTree live(live_without(dropped));
  std::size_t first = 0;  // of `kept` that is not dropped
  while (live.largest() > static_cast<std::int64_t>(target)) {
    const auto op = static_cast<std::uint32_t>(live.first_largest());
    std::size_t best = gaps_.size();
    double least = 0;
    while (first < kept.size() && dropped[kept[first]] != Drop::kKept) ++first;
    for (std::size_t at = first; at < kept.size(); ++at) {
      const std::uint32_t i = kept[at];
      if (best != gaps_.size() && costs[i] >= least) break;  // a crowd only makes it dearer
      if (dropped[i] != Drop::kKept || gaps_[i].from >= op || op >= gaps_[i].to) continue;
      const double cost = costs[i] * crowd.factor(gaps_[i]);
      if (best != gaps_.size() && (cost > least || (cost == least && i > best))) continue;
      best = i;
      least = cost;
    }
    if (best == gaps_.size()) break;
    dropped[best] = Drop::kOnce;
    crowd.add(gaps_[best]);
    live.add(gaps_[best].from + 1, gaps_[best].to, -static_cast<std::int64_t>(gaps_[best].bytes));
  }
  return dropped;
}

std::vector<std::int64_t> PeakShaving::live_without(const std::vector<Drop>& dropped) const {
  std::vector<std::int64_t> live(liveness_.ops() + 1);  // changes from op to op at first
  for (std::size_t i = 0; i < gaps_.size(); ++i) {
    if (dropped[i] == Drop::kKept) continue;
    live[gaps_[i].from + 1] -= static_cast<std::int64_t>(gaps_[i].bytes);
    live[gaps_[i].to] += static_cast<std::int64_t>(gaps_[i].bytes);
  }
  live.pop_back();
  std::int64_t gone = 0;
  for (std::uint32_t op = 0; op < live.size(); ++op) {
    gone += live[op];
    live[op] = static_cast<std::int64_t>(liveness_.live(op).count()) + gone;
  }
  return live;
}

}  // namespace tensorpager::planning
