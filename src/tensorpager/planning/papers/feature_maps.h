// Feature maps: what an op of the forward pass makes and an op of the backward pass reads. The systems of the papers
// move or rebuild nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/names.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::planning {

struct FeatureMap {
  StorageId storage;
  std::uint64_t bytes;           // charged
  std::uint32_t birth;           // op that makes it
  std::uint32_t last_forward;    // the last op of the forward pass that uses it
  std::uint32_t first_backward;  // the first op of the backward pass that uses it
  bool into_convolution;         // a convolution of the forward pass reads it
};

/// By last_forward, so that those that are idle for longest come first.
std::vector<FeatureMap> feature_maps(const trace::Trace& trace, const Liveness& liveness);

}  // namespace tensorpager::planning
