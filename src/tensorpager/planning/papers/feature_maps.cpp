#include "tensorpager/planning/papers/feature_maps.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace tensorpager::planning {
namespace {

/// `aten::convolution`, `aten::cudnn_convolution` and their kind.
bool is_convolution(const trace::Op& op) { return op.name.find("conv") != std::string::npos; }

std::optional<FeatureMap> feature_map(const trace::Trace& trace, const Liveness& liveness, StorageId id) {
  const Life& life = liveness.life(id);
  if (!life.pageable || life.entry || !life.birth || trace.ops[*life.birth].backward) return std::nullopt;
  const std::span<const Use> uses = liveness.uses(id);
  const auto backward = std::ranges::find_if(uses, [&](const Use& use) { return trace.ops[use.op].backward; });
  if (backward == uses.begin() || backward == uses.end()) return std::nullopt;
  const std::span<const Use> forward(uses.begin(), backward);
  const auto reads_in_convolution = [&](const Use& use) { return !use.write && is_convolution(trace.ops[use.op]); };
  return FeatureMap{.storage = id,
                    .bytes = life.bytes,
                    .birth = *life.birth,
                    .last_forward = forward.back().op,
                    .first_backward = backward->op,
                    .into_convolution = std::ranges::any_of(forward, reads_in_convolution)};
}

}  // namespace

std::vector<FeatureMap> feature_maps(const trace::Trace& trace, const Liveness& liveness) {
  std::vector<FeatureMap> maps;
  for (std::uint32_t i = 0; i < liveness.storages(); ++i) {
    if (const auto map = feature_map(trace, liveness, StorageId{i})) maps.push_back(*map);
  }
  std::ranges::stable_sort(maps, {}, &FeatureMap::last_forward);
  return maps;
}

}  // namespace tensorpager::planning
