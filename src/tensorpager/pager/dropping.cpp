// Blocks that are dropped, and rebuilt when somebody needs them.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <ranges>
#include <span>
#include <vector>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

/// Counts the time that replays take, but for that of transfers meanwhile. What runs within a replay is a part of it.
class Pager::ReplayTime {
 public:
  explicit ReplayTime(Pager& pager) : pager_(pager), counts_(t_state.replaying == Replaying::kNo) {
    if (counts_) of_transfers_ = seconds_of_transfers();
  }
  ~ReplayTime() {
    if (!counts_) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    const double of_transfers = seconds_of_transfers() - of_transfers_;
    const Lock lock(pager_);
    pager_.counts_.replay_seconds += std::max(0.0, took.count() - of_transfers);
  }
  ReplayTime(const ReplayTime&) = delete;
  ReplayTime& operator=(const ReplayTime&) = delete;

 private:
  double seconds_of_transfers() const {
    const Lock lock(pager_);
    return pager_.counts_.seconds_of_transfers();
  }

  Pager& pager_;
  const bool counts_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double of_transfers_ = 0;
};

void Pager::set_rebuilder(Rebuilder* rebuilder) {
  const Lock lock(*this);
  rebuilder_ = rebuilder;
  executor_.set_rebuilder(rebuilder);
}

bool Pager::drop(Block& block) {
  const Lock lock(*this);
  Rebuilder* const rebuilder = rebuilder_;
  const bool is_dropped = rebuilder != nullptr && transfers_.drop(block, *rebuilder);
  note_curve();
  return is_dropped;
}

bool Pager::take_over(std::uint64_t block, Block& fresh) {
  const Lock lock(*this);
  const auto dropped = table_.dropped().find(block);
  if (dropped == table_.dropped().end()) return false;
  Block& rebuilt = *dropped->second;
  space_.set_owner(fresh.data, nullptr);
  struct End {
    Pager& pager;
    Block& fresh;
    ~End() {
      pager.executor_.forget_page_ins(fresh);
      // A plan has the rebuilt block by now, unless the machine refused.
      if (ActionSource* const source = pager.executor_.source()) source->died(fresh);
      pager.end_record(fresh);
    }
  } const end{*this, fresh};
  transfers_.take_over(rebuilt, fresh);
  if (Rebuilder* const rebuilder = rebuilder_) rebuilder->release(rebuilt);  // at once: it may be dropped again
  transfers_.settle_pool();
  if (is_told_to_source()) executor_.source()->taken_over(rebuilt, fresh);
  note_curve();
  return true;
}

std::vector<std::uint64_t> Pager::dropped() {
  std::vector<std::uint64_t> dropped;
  {
    const Lock lock(*this);
    std::ranges::copy(table_.dropped() | std::views::keys, std::back_inserter(dropped));
  }
  std::ranges::sort(dropped);
  return dropped;
}

void Pager::end_drops() {
  {
    const Lock lock(*this);
    if (fuzzer_) fuzzer_->end_drops();
  }
  rebuild(dropped());
}

void Pager::rebuild(std::span<const std::uint64_t> blocks) {
  const ReplayTime time(*this);
  for (const std::uint64_t block : blocks) rebuilder_.load()->rebuild(block);
}

bool Pager::run_replay(const DueReplay& due) {
  const ReplayTime time(*this);
  return rebuilder_.load()->replay(due);
}

}  // namespace tensorpager::pager
