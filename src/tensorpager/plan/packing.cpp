#include "tensorpager/plan/packing.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "tensorpager/plan/occupancy.h"
#include "tensorpager/plan/online_packing.h"

namespace tensorpager::plan {
namespace {

/// The orders that are tried before one is mended; where there is no time for them, none is.
constexpr std::size_t kFewestPasses = 3;

enum class Fit : std::uint8_t { kTightest, kLowest };

using Order = std::vector<std::uint32_t>;

class Packer {
 public:
  Packer(std::vector<Interval>& intervals, std::uint32_t ops, std::uint64_t space)
      : intervals_(intervals), ops_(ops), space_(space), offsets_(intervals.size()), occupancy_(ops) {}

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
    occupancy_.clear();
    std::uint64_t top = 0;
    for (const std::uint32_t i : order) {
      const Interval& interval = intervals_[i];
      const auto length = static_cast<std::uint32_t>(std::min<std::int64_t>(interval.release - interval.begin, ops_));
      const auto begin = static_cast<std::uint32_t>(interval.begin);
      const std::uint32_t end = std::min(begin + length, ops_);
      const std::uint32_t rest = begin + length - end;
      taken_.clear();
      occupancy_.collect(begin, end, taken_);
      occupancy_.collect(0, rest, taken_);
      offsets_[i] = find(interval.bytes, fit);
      const Range range{offsets_[i], offsets_[i] + interval.bytes};
      occupancy_.take(begin, end, range);
      occupancy_.take(0, rest, range);
      top = std::max(top, range.end);
    }
    keep(top, order);
    return top;
  }

 private:
  void keep(std::uint64_t top, const Order& order) {
    if (top >= best_top_) return;
    best_top_ = top;
    best_order_ = order;
    for (std::size_t i = 0; i < intervals_.size(); ++i) intervals_[i].offset = offsets_[i];
  }

  std::uint64_t find(std::uint64_t bytes, Fit fit) {
    std::ranges::sort(taken_, {}, &Range::begin);
    std::uint64_t free_from = 0;
    std::uint64_t best = UINT64_MAX;
    std::uint64_t best_gap = UINT64_MAX;
    for (const Range& range : taken_) {
      if (range.begin > free_from) {
        const std::uint64_t gap = range.begin - free_from;
        if (gap >= bytes && gap < best_gap) {
          best = free_from;
          best_gap = gap;
          if (fit == Fit::kLowest || gap == bytes) break;
        }
      }
      free_from = std::max(free_from, range.end);
    }
    return best == UINT64_MAX ? free_from : best;
  }

  std::vector<Interval>& intervals_;
  std::uint32_t ops_;
  std::uint64_t space_;
  std::vector<std::uint64_t> offsets_;  // of the latest order
  Occupancy occupancy_;
  std::vector<Range> taken_;
  std::uint64_t best_top_ = UINT64_MAX;
  Order best_order_;
};

template <typename Key>
Order ordered_by(const std::vector<Interval>& intervals, Key key) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::uint32_t i) { return key(intervals[i]); });
  return order;
}

double area_of(const Interval& interval) {
  return static_cast<double>(interval.bytes) * static_cast<double>(interval.release - interval.begin);
}

/// Squeaky wheel: what ends above the space is moved forward in the order. Now and then something else moves too.
void mend(Packer& packer, const std::vector<Interval>& intervals, std::uint64_t space, std::size_t rounds) {
  const std::size_t count = intervals.size();
  std::vector<double> priority(count);
  for (std::size_t k = 0; k < count; ++k) priority[packer.best_order()[k]] = static_cast<double>(count - k);
  std::vector<double> best_priority = priority;
  Order order = packer.best_order();
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<double>(random() % 1024) / 1024; };
  for (std::size_t round = 0; round < rounds && !packer.fits(); ++round) {
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

}  // namespace

std::uint64_t pack(std::vector<Interval>& intervals, std::uint32_t ops, std::uint64_t space,
                   const PackingEffort& effort) {
  Packer packer(intervals, ops, space);
  packer.offer(pack_online(intervals, ops), ordered_by(intervals, [](const Interval& i) { return -i.begin; }));
  const std::size_t passes = effort.work / std::max<std::size_t>(intervals.size(), 1);
  if (packer.fits() || passes < kFewestPasses) return packer.best_top();
  const Order by_begin = packer.best_order();
  packer.place(by_begin, Fit::kTightest);
  if (effort.many_orders && !packer.fits()) {
    packer.place(ordered_by(intervals, [](const Interval& i) { return std::pair(i.bytes, i.release - i.begin); }),
                 Fit::kTightest);
    if (packer.fits()) return packer.best_top();
    packer.place(ordered_by(intervals, area_of), Fit::kTightest);
  }
  mend(packer, intervals, space, std::min<std::size_t>(effort.repairs, passes - kFewestPasses));
  return packer.best_top();
}

}  // namespace tensorpager::plan
