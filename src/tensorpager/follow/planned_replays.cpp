#include "tensorpager/follow/planned_replays.h"

#include <algorithm>

namespace tensorpager::follow {

PlannedReplays::PlannedReplays(const Plan& plan, const plan::Rewriting& rewriting)
    : is_replayed_later_(rewriting.entries.size()), copy_of_(rewriting.storages) {
  std::uint32_t replays = 0;
  for (const plan::Rewriting::Entry& entry : rewriting.entries) {
    if (!entry.replayed) program_ops_.push_back(static_cast<std::uint32_t>(replays_.size()));
    replays_.push_back(entry.replayed ? replays++ : kNoReplay);
  }
  for (const plan::Replay& replay : plan.replays) {
    replayed_.push_back(program_ops_[replay.op]);
    is_replayed_later_[replayed_.back()] = true;
    keeps_.push_back(replay.keeps);
  }
}

std::vector<std::uint32_t> PlannedReplays::kept_by(std::uint32_t replay, std::span<const StorageId> made) const {
  const std::vector<StorageId>& keeps = keeps_[replays_[replay]];
  std::vector<std::uint32_t> kept;
  for (std::uint32_t k = 0; k < made.size(); ++k)
    if (std::ranges::find(keeps, copy_of_[trace::index(made[k])]) != keeps.end()) kept.push_back(k);
  return kept;
}

}  // namespace tensorpager::follow
