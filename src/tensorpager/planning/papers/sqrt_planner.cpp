// Chen, Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016.
//
// The forward graph is cut into segments of about as many bytes each; the feature map at the end of each is kept, and
// the others of a segment are rebuilt at once when its backward pass begins. Cuts are made where one map alone carries
// all to the ops after it. As in their search for a budget, several sizes of segments are tried, and the quickest that
// fits is taken. Nothing is swapped.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"
#include "tensorpager/planning/recomputation.h"

namespace tensorpager::planning {
namespace {

constexpr int kSizes = 32;  // of segments, from all bytes down to 1/100 of them
constexpr double kSmallest = 0.01;

class Segments {
 public:
  explicit Segments(const Problem& problem)
      : problem_(problem),
        liveness_(problem.trace),
        maps_(feature_maps(problem.trace, liveness_)),
        recomputation_(problem.trace, liveness_, plan::op_times(problem.trace, problem.machine)) {
    std::ranges::stable_sort(maps_, {}, &FeatureMap::birth);
    for (const FeatureMap& map : maps_) all_ += map.bytes;
    find_cuts();
  }

  std::uint64_t all_bytes() const { return all_; }

  /// Returns nullopt if the segments take too many replays.
  std::optional<Decisions> decisions(std::uint64_t bytes_each, Arguments arguments) const {
    std::vector<bool> is_kept(problem_.trace.storages.size());
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      bytes += maps_[i].bytes;
      if (bytes < bytes_each || !is_cut_[i]) continue;
      is_kept[trace::index(maps_[i].storage)] = true;
      bytes = 0;
    }
    std::vector<Drop> dropped;
    for (const Droppable& gap : recomputation_.droppable())
      dropped.push_back(is_idle_map(gap) && !is_kept[trace::index(gap.storage)] ? Drop::kOnce : Drop::kKept);
    auto replays = recomputation_.replays(dropped, kMostReplaysAnOp * liveness_.ops(), arguments);
    if (!replays) return std::nullopt;
    return Decisions{.replays = std::move(*replays)};
  }

 private:
  /// Whether the storage is one that the forward pass leaves for the backward pass here.
  bool is_idle_map(const Droppable& gap) const {
    return !problem_.trace.ops[gap.from].backward && problem_.trace.ops[gap.to].backward;
  }

  void find_cuts() {
    std::vector<std::int32_t> carried(liveness_.ops() +
                                      1);  // storages from before each op to after it; changes at first
    const auto uses_in_forward = [&](StorageId id) {
      const auto uses = liveness_.uses(id);
      return std::ranges::count_if(uses, [&](const Use& use) { return !problem_.trace.ops[use.op].backward; });
    };
    for (std::uint32_t i = 0; i < liveness_.storages(); ++i) {
      const Life& life = liveness_.life(StorageId{i});
      const auto uses = uses_in_forward(StorageId{i});
      if (life.entry || !life.birth || uses < 2 || problem_.trace.ops[*life.birth].backward) continue;
      ++carried[*life.birth];
      --carried[liveness_.uses(StorageId{i})[static_cast<std::size_t>(uses - 1)].op];
    }
    for (std::size_t op = 1; op < carried.size(); ++op) carried[op] += carried[op - 1];
    for (const FeatureMap& map : maps_) {
      const auto first = carried.begin() + map.birth;
      is_cut_.push_back(std::find(first, carried.begin() + map.last_forward, 1) != carried.begin() + map.last_forward);
    }
    // Nets whose maps reach far have no such place.
    if (std::ranges::find(is_cut_, true) == is_cut_.end()) is_cut_.assign(maps_.size(), true);
  }

  const Problem& problem_;
  Liveness liveness_;
  std::vector<FeatureMap> maps_;  // by birth
  std::vector<bool> is_cut_;      // by number of maps_
  std::uint64_t all_ = 0;         // bytes of maps
  Recomputation recomputation_;
};

class SqrtPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "sqrt");
    auto without = Completion(problem, {}).plan("sqrt");
    if (without) return without;
    struct Choice {
      Nanoseconds step;
      Decisions decisions;
    };
    std::vector<Choice> choices;
    Infeasible least = without.error();
    const Segments segments(problem);
    for (int size = 0; size < kSizes; ++size) {
      const double share = std::pow(kSmallest, static_cast<double>(size) / (kSizes - 1));
      const auto bytes = static_cast<std::uint64_t>(share * static_cast<double>(segments.all_bytes()));
      for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore}) {
        auto decisions = segments.decisions(bytes, arguments);
        if (!decisions) continue;
        const Completion completion(problem, *decisions);
        if (!completion.excess())
          choices.push_back({completion.step_by_bytes(), std::move(*decisions)});
        else if (completion.excess()->short_by < least.short_by)
          least.short_by = completion.excess()->short_by;
      }
    }
    std::ranges::stable_sort(choices, {}, &Choice::step);
    for (const Choice& choice : choices) {
      if (auto found = Completion(problem, choice.decisions).plan("sqrt")) return found;
    }
    return least;
  }
};

}  // namespace

std::unique_ptr<Planner> make_sqrt_planner() { return std::make_unique<SqrtPlanner>(); }

}  // namespace tensorpager::planning
