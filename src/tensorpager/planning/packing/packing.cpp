#include "tensorpager/planning/packing/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "tensorpager/planning/packing/ejection.h"
#include "tensorpager/planning/packing/online_packing.h"
#include "tensorpager/planning/packing/placed_blocks.h"

namespace tensorpager::planning {
namespace {

/// The orders that are tried before blocks are ejected; where there is no time for all of them, none is.
constexpr std::size_t kFewestPasses = 3;

/// Looks at placed blocks: beyond it a trace is packed by begin only, which forgets what has ended.
constexpr std::uint64_t kLargestPass = 15'000'000;

/// One pass by begin looks at all that is resident for each interval: seconds, for more intervals than these.
constexpr std::size_t kMostOverTransfers = 12'000;

/// What ejection and mending leave for packing over transfers: its orders take more than one pass each.
constexpr std::uint64_t kKeptPasses = 8;

/// In one search: what fits at all mostly does so soon, and another plan may fit better.
constexpr std::uint64_t kMostEjectionLooks = 300'000;

/// Blocks that are placed by begin, before those that have ended are forgotten.
constexpr std::size_t kRetireEvery = 64;

/// What finds no room, for residence alone, gets so many tries.
constexpr int kOverTransfersRounds = 24;

using Order = std::vector<std::uint32_t>;

class Packer {
 public:
  Packer(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space)
      : intervals_(intervals), space_(space), offsets_(intervals.size()), placed_(starts) {
    for (std::uint32_t i = 0; i < intervals.size(); ++i) {
      if (intervals[i].fixed) fixed_.push_back(i);
    }
  }

  bool fits() const { return best_top_ <= space_; }
  std::uint64_t best_top() const { return best_top_; }
  const Order& best_order() const { return best_order_; }
  std::uint64_t end_of(std::uint32_t i) const { return offsets_[i] + intervals_[i].bytes; }

  /// What another packer found.
  void offer(std::vector<std::uint64_t> offsets, const Order& order) {
    offsets_ = std::move(offsets);
    std::uint64_t top = 0;
    for (std::uint32_t i = 0; i < intervals_.size(); ++i) top = std::max(top, end_of(i));
    keep(top, order);
  }

  /// Places all in this order; keeps what is best.
  std::uint64_t place(const Order& order, Fit fit) {
    return place_each(order, [&](const Interval& interval) { return placed_.find(interval, fit); });
  }

  /// From number `by_begin` on, the order is by begin, and nothing goes over the window's end.
  std::uint64_t place_over_transfers(const Order& order, std::size_t by_begin) {
    std::size_t number = 0;
    return place_each(order, [&](const Interval& interval) {
      ++number;
      if (number > by_begin && number % kRetireEvery == 0) placed_.retire(interval.begin);
      const std::uint64_t offset = placed_.find(interval, Fit::kTightest);
      return offset + interval.bytes <= space_ ? offset : placed_.find_over_transfers(interval, space_);
    });
  }
  std::uint64_t looks() const { return placed_.looks(); }

 private:
  template <typename Find>
  std::uint64_t place_each(const Order& order, Find find) {
    placed_.clear();
    std::uint64_t top = 0;
    for (const std::uint32_t i : fixed_) {
      offsets_[i] = intervals_[i].offset;
      placed_.add(intervals_[i], offsets_[i]);
      top = std::max(top, end_of(i));
    }
    for (const std::uint32_t i : order) {
      if (intervals_[i].fixed) continue;
      offsets_[i] = find(intervals_[i]);
      placed_.add(intervals_[i], offsets_[i]);
      top = std::max(top, end_of(i));
    }
    keep(top, order);
    return top;
  }

  void keep(std::uint64_t top, const Order& order) {
    if (top >= best_top_) return;
    best_top_ = top;
    best_order_ = order;
    for (std::size_t i = 0; i < intervals_.size(); ++i) intervals_[i].offset = offsets_[i];
  }

  std::vector<Interval>& intervals_;
  std::uint64_t space_;
  std::vector<std::uint64_t> offsets_;  // of the latest order
  PlacedBlocks placed_;
  std::vector<std::uint32_t> fixed_;
  std::uint64_t best_top_ = UINT64_MAX;
  Order best_order_;
};

template <typename Key>
Order ordered_by(const std::vector<Interval>& intervals, Key key) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::uint32_t i) { return std::invoke(key, intervals[i]); });
  return order;
}

Order by_size(const std::vector<Interval>& intervals) {
  return ordered_by(intervals, [](const Interval& i) { return std::pair(i.bytes, i.release - i.begin); });
}

/// Priority repair: blocks that end above the space move forward in the order. Sometimes another block moves too.
void mend(Packer& packer, const std::vector<Interval>& intervals, std::uint64_t space, PackingEffort& effort) {
  const std::size_t count = intervals.size();
  std::vector<double> priority(count);
  for (std::size_t k = 0; k < count; ++k) priority[packer.best_order()[k]] = static_cast<double>(count - k);
  std::vector<double> best_priority = priority;
  Order order = packer.best_order();
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<double>(random() % 1024) / 1024; };
  for (unsigned round = 0; round < effort.repairs && !packer.fits() && effort.spend(count, 1, kKeptPasses); ++round) {
    const double step = static_cast<double>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (packer.end_of(i) > space)
        priority[i] += step * (0.05 + 0.3 * uniform());
      else if (intervals[i].bytes > space / 200 && random() % 16 == 0)
        priority[i] += step * 0.1 * (uniform() - 0.5);
    }
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::uint32_t i) { return priority[i]; });
    const std::uint64_t before = packer.best_top();
    if (packer.place(order, round % 2 == 0 ? Fit::kTightest : Fit::kLowest) < before)
      best_priority = priority;
    else if (random() % 4 == 0)
      priority = best_priority;
  }
}

/// Ejects blocks if no order fits. Leaves some of the effort for repairs and for packing over transfers.
void eject(std::vector<Interval>& intervals, std::uint32_t ops, std::uint64_t space, PackingEffort& effort) {
  const std::uint64_t kept = intervals.size() * intervals.size() / 2 * kKeptPasses;
  if (effort.looks <= kept) return;
  const std::uint64_t most = std::min(effort.looks - kept, kMostEjectionLooks);
  std::uint64_t left = most;
  Ejection(intervals, ops).fit(intervals, space, left, Ejection::From::kWhereTheyAre);
  effort.looks -= most - left;
}

}  // namespace

bool PackingEffort::spend(std::size_t intervals, std::uint64_t passes, std::uint64_t kept) {
  const std::uint64_t pass = std::uint64_t{intervals} * intervals / 2;
  if (pass > kLargestPass || pass * (passes + kept) > looks) return false;
  looks -= pass * passes;
  return true;
}

std::uint64_t pack(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                   PackingEffort& effort) {
  const auto ops = static_cast<std::uint32_t>(starts.size() - 1);
  Packer packer(intervals, starts, space);
  packer.offer(pack_online(intervals, ops), ordered_by(intervals, [](const Interval& i) { return -i.begin; }));
  // Done even if it fits: a lower top leaves one large gap for unplanned blocks.
  if (!effort.spend(intervals.size(), kFewestPasses)) return packer.best_top();
  packer.place(Order(packer.best_order()), Fit::kTightest);
  if (effort.many_orders) {
    packer.place(by_size(intervals), Fit::kTightest);
    packer.place(ordered_by(intervals, &Interval::area), Fit::kTightest);
  }
  if (effort.ejection && !packer.fits()) eject(intervals, ops, space, effort);
  if (top_of(intervals) > space) mend(packer, intervals, space, effort);
  return top_of(intervals);
}

std::uint64_t top_of(const std::vector<Interval>& intervals) {
  std::uint64_t top = 0;
  for (const Interval& interval : intervals) top = std::max(top, interval.offset + interval.bytes);
  return top;
}

std::uint64_t most_taken(const std::vector<Interval>& intervals, std::uint32_t ops) {
  std::vector<std::uint64_t> change(ops + std::size_t{1});  // wraps below zero and back
  std::uint64_t taken = 0;
  for (const Interval& interval : intervals) {
    const std::int64_t over = std::max<std::int64_t>(interval.release - ops, 0);
    change[static_cast<std::size_t>(interval.begin)] += interval.bytes;
    change[static_cast<std::size_t>(interval.release - over)] -= interval.bytes;
    if (over > 0) taken += interval.bytes;
    change[static_cast<std::size_t>(over)] -= over > 0 ? interval.bytes : 0;
  }
  std::uint64_t most = 0;
  for (const std::uint64_t by : change) most = std::max(most, taken += by);
  return most;
}

bool pack_over_transfers(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                         PackingOrder by, PackingEffort& effort) {
  const auto ops = static_cast<std::int64_t>(starts.size()) - 1;
  const bool is_by_begin = by == PackingOrder::kBegin;
  if (intervals.size() > kMostOverTransfers) return false;
  Packer packer(intervals, starts, space);
  Order order = by == PackingOrder::kSize   ? by_size(intervals)
                : by == PackingOrder::kArea ? ordered_by(intervals, &Interval::area)
                                            : ordered_by(intervals, [](const Interval& i) { return -i.begin; });
  // What goes over the window's end, and what found no room, comes first.
  const auto first = [&](auto is_first) {
    return static_cast<std::size_t>(std::ranges::stable_partition(order, is_first).begin() - order.begin());
  };
  std::size_t ahead = first([&](std::uint32_t i) { return is_by_begin && intervals[i].release > ops; });
  for (int round = 0; round < kOverTransfersRounds; ++round) {
    if (is_by_begin ? effort.looks == 0 : !effort.spend(intervals.size(), 1)) return false;
    const std::uint64_t looked = packer.looks();
    if (packer.place_over_transfers(order, is_by_begin ? ahead : order.size()) <= space) return true;
    if (is_by_begin) effort.looks -= std::min(effort.looks, packer.looks() - looked);
    const std::size_t moved = first([&](std::uint32_t i) { return packer.end_of(i) > space; });
    ahead = std::min(order.size(), ahead + moved);
  }
  return false;
}

}  // namespace tensorpager::planning
