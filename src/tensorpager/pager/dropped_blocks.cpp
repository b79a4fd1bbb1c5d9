#include "tensorpager/pager/dropped_blocks.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <ranges>

#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

/// Counts the time that replays take, but for that of transfers meanwhile. What runs within a replay is a part of it.
class DroppedBlocks::ReplayTime {
 public:
  explicit ReplayTime(Core& core) : core_(core), is_outermost_(t_state.replaying == Replaying::kNo) {
    if (is_outermost_) of_transfers_ = seconds_of_transfers();
  }
  ~ReplayTime() {
    if (!is_outermost_) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    const double of_transfers = seconds_of_transfers() - of_transfers_;
    const Lock lock(core_.mutex);
    core_.counts.replay_seconds += std::max(0.0, took.count() - of_transfers);
  }
  ReplayTime(const ReplayTime&) = delete;
  ReplayTime& operator=(const ReplayTime&) = delete;

 private:
  double seconds_of_transfers() const {
    const Lock lock(core_.mutex);
    return core_.counts.seconds_of_transfers();
  }

  Core& core_;
  const bool is_outermost_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double of_transfers_ = 0;
};

void DroppedBlocks::set_rebuilder(Rebuilder* rebuilder) {
  const Lock lock(core_.mutex);
  core_.rebuilder = rebuilder;
  core_.executor.set_rebuilder(rebuilder);
}

bool DroppedBlocks::drop(Block& block) {
  const Lock lock(core_.mutex);
  Rebuilder* const rebuilder = core_.rebuilder;
  const bool is_dropped = rebuilder != nullptr && core_.transfers.drop(block, *rebuilder);
  core_.note_curve();
  return is_dropped;
}

bool DroppedBlocks::take_over(std::uint64_t block, Block& fresh) {
  const Lock lock(core_.mutex);
  const auto dropped = core_.table.dropped().find(block);
  if (dropped == core_.table.dropped().end()) return false;
  Block& rebuilt = *dropped->second;
  core_.space.set_owner(fresh.data, nullptr);
  struct End {
    Core& core;
    Block& fresh;
    ~End() {
      core.executor.forget_page_ins(fresh);
      // A plan has the rebuilt block by now, unless the machine refused.
      if (ActionSource* const source = core.executor.source()) source->died(fresh);
      core.pins.end_record(fresh);
    }
  } const end{core_, fresh};
  core_.transfers.take_over(rebuilt, fresh);
  if (Rebuilder* const rebuilder = core_.rebuilder) rebuilder->release(rebuilt);  // at once: it may be dropped again
  core_.transfers.settle_pool();
  if (core_.follower.is_told_to_source()) core_.executor.source()->taken_over(rebuilt, fresh);
  core_.note_curve();
  return true;
}

std::vector<std::uint64_t> DroppedBlocks::numbers() {
  std::vector<std::uint64_t> dropped;
  {
    const Lock lock(core_.mutex);
    std::ranges::copy(core_.table.dropped() | std::views::keys, std::back_inserter(dropped));
  }
  std::ranges::sort(dropped);
  return dropped;
}

void DroppedBlocks::rebuild(std::span<const std::uint64_t> blocks) {
  const ReplayTime time(core_);
  for (const std::uint64_t block : blocks) core_.rebuilder.load()->rebuild(block);
}

bool DroppedBlocks::run_replay(const DueReplay& due) {
  const ReplayTime time(core_);
  return core_.rebuilder.load()->replay(due);
}

}  // namespace tensorpager::pager
