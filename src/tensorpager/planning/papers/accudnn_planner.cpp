// Guo, Liu, Wang, Yao, Han, Li, Lu, Hu: AccUDNN, 2019: the memory optimizer.
//
// A model of the time decides what is swapped: first whatever makes training possible, then only what does not cost
// speed. Here the first are the feature maps that are idle for longest, as many as it takes. Then, by the time of the
// whole window, from those near the loss on, each returns to the device that there is room for and that makes the
// window quicker; and each goes that makes it quicker by the room that others get.
#include <algorithm>

#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"

namespace tensorpager::planning {
namespace {

/// Changes that are tried: of large windows, several maps at once.
constexpr std::size_t kMostChanges = 200;

class Swapped {
 public:
  Swapped(const Problem& problem, std::vector<FeatureMap> maps)
      : problem_(problem), maps_(std::move(maps)), is_swapped_(maps_.size()) {}

  Decisions decisions() const {
    Decisions decisions;
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      if (is_swapped_[i]) decisions.page_out(maps_[i]);
    }
    return decisions;
  }

  /// The first `count` alone.
  void swap(std::size_t count) {
    for (std::size_t i = 0; i < maps_.size(); ++i) is_swapped_[i] = i < count;
  }

  void improve() {
    Nanoseconds best = step();
    const std::size_t at_once = (maps_.size() + kMostChanges - 1) / kMostChanges;
    for (std::size_t end = maps_.size(); end > 0; end -= std::min(end, at_once)) {
      const std::vector<bool> before = is_swapped_;
      for (std::size_t i = end - std::min(end, at_once); i < end; ++i) is_swapped_[i] = !is_swapped_[i];
      const Nanoseconds changed = step();
      if (changed < best)
        best = changed;
      else
        is_swapped_ = before;
    }
  }

 private:
  Nanoseconds step() const {
    const Completion completion(problem_, decisions());
    return completion.excess() ? Nanoseconds::max() : completion.step_by_bytes();
  }

  const Problem& problem_;
  std::vector<FeatureMap> maps_;
  std::vector<bool> is_swapped_;
};

class AccudnnPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "accudnn");
    const std::vector<FeatureMap> maps = feature_maps(problem.trace, Liveness(problem.trace));
    Swapped swapped(problem, maps);
    auto possible = plan_with_first(problem, "accudnn", maps.size(), [&](std::size_t first) {
      swapped.swap(first);
      return swapped.decisions();
    });
    if (!possible) return possible;
    swapped.improve();
    Quickest quickest;
    quickest.offer(std::move(possible));
    quickest.offer(Completion(problem, swapped.decisions()).plan("accudnn"));
    return quickest.take();
  }
};

}  // namespace

std::unique_ptr<Planner> make_accudnn_planner() { return std::make_unique<AccudnnPlanner>(); }

}  // namespace tensorpager::planning
