// Where a plan has replays among the ops of the program. Ops are counted with the replays, unless it is said that they
// are the program's. A value that never changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensorpager/follow/names.h"
#include "tensorpager/plan/rewriting.h"

namespace tensorpager::follow {

class PlannedReplays {
 public:
  /// `rewriting`: of the program's window, by the plan's replays.
  PlannedReplays(const Plan& plan, const plan::Rewriting& rewriting);

  bool any() const { return !keeps_.empty(); }
  bool is_replay(std::uint32_t op) const { return replays_[op] != kNoReplay; }
  bool is_first(std::uint32_t op) const { return replays_[op] == 0; }
  /// The op of the program that replays from `op` on run before.
  std::uint32_t behind(std::uint32_t op) const {
    while (is_replay(op)) ++op;
    return op;
  }
  /// The op of the program that a replay runs again.
  std::uint32_t replayed_by(std::uint32_t replay) const { return replayed_[replays_[replay]]; }
  bool is_replayed_later(std::uint32_t op) const { return is_replayed_later_[op]; }
  /// What a replay keeps, by places in `made`: what the op that it runs again makes anew.
  std::vector<std::uint32_t> kept_by(std::uint32_t replay, std::span<const StorageId> made) const;

  /// By op of the program's window: the op here.
  std::span<const std::uint32_t> program_ops() const { return program_ops_; }

 private:
  static constexpr std::uint32_t kNoReplay = ~std::uint32_t{0};

  std::vector<std::uint32_t> replays_;  // by op: the number of its replay; kNoReplay: it is the program's
  std::vector<std::uint32_t> program_ops_;
  std::vector<bool> is_replayed_later_;        // by op
  std::vector<std::uint32_t> replayed_;        // by number of a replay: the op that it runs again
  std::vector<std::vector<StorageId>> keeps_;  // by number of a replay: storages of the program's window
  std::vector<StorageId> copy_of_;             // by storage: that of the program's window
};

}  // namespace tensorpager::follow
