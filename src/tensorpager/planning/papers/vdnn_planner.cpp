// Rhu, Gimelshein, Clemons, Zulfiqar, Keckler: vDNN, 2016; and Shriram, Garg, Kulkarni: vDNN++, 2019.
//
// The input of a layer is offloaded while the layer computes, and compute waits for the copy at the layer's end. It is
// prefetched while the layer after it goes backward. Policies: no offloads, inputs of convolutions, inputs of all
// layers; the dynamic policy takes the quickest that fits. vDNN++ frees a block when its copy ends, so that compute
// does not wait.
//
// Here a page-out begins after the op that is the last to read it, so it overlaps the layer after it, at whose end
// compute waits. vDNN++'s allocator is not needed, as blocks are placed in advance; its compression of host copies
// depends on the data, and changes no time.
#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/feature_maps.h"
#include "tensorpager/planning/papers/papers.h"

namespace tensorpager::planning {
namespace {

enum class Policy : std::uint8_t { kNone, kConvolutions, kAll };

class VdnnPlanner final : public Planner {
 public:
  VdnnPlanner(const char* name, PageOuts page_outs) : name_(name), page_outs_(page_outs) {}

  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, name_);
    const std::vector<FeatureMap> maps = feature_maps(problem.trace, Liveness(problem.trace));
    Quickest quickest;
    for (const Policy policy : {Policy::kNone, Policy::kConvolutions, Policy::kAll})
      quickest.offer(Completion(problem, decisions(maps, policy)).plan(name_));
    return quickest.take();
  }

 private:
  Decisions decisions(const std::vector<FeatureMap>& maps, Policy policy) const {
    Decisions decisions{.page_ins = PageIns::kOneAhead, .page_outs = page_outs_};
    for (const FeatureMap& map : maps) {
      if (policy == Policy::kAll || (policy == Policy::kConvolutions && map.into_convolution)) decisions.page_out(map);
    }
    return decisions;
  }

  const char* name_;
  PageOuts page_outs_;
};

}  // namespace

std::unique_ptr<Planner> make_vdnn_planner() { return std::make_unique<VdnnPlanner>("vdnn", PageOuts::kInStep); }
std::unique_ptr<Planner> make_vdnnpp_planner() { return std::make_unique<VdnnPlanner>("vdnnpp", PageOuts::kOverlap); }

}  // namespace tensorpager::planning
