#include "tensorpager/planning/packing/online_packing.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace tensorpager::planning {
namespace {

/// Gaps looked at for one block before it goes on top.
constexpr int kMaxTries = 24;

/// Free ranges below the top.
class Gaps {
 public:
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // size, offset

  const BySize& by_size() const { return by_size_; }
  std::uint64_t top() const { return top_; }

  void free(std::uint64_t offset, std::uint64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      const auto before = std::prev(next);
      offset = before->first;
      size += before->second;
      erase(before);
    }
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      erase(next);
    }
    insert(offset, size);
  }

  /// The range lies in one gap, or at the top.
  void take(std::uint64_t offset, std::uint64_t size) {
    if (offset >= top_) {
      if (offset > top_) insert(top_, offset - top_);
      top_ = offset + size;
      return;
    }
    const auto gap = std::prev(by_offset_.upper_bound(offset));
    const auto [begin, length] = *gap;
    erase(gap);
    if (offset > begin) insert(begin, offset - begin);
    if (offset + size < begin + length) insert(offset + size, begin + length - offset - size);
    top_ = std::max(top_, offset + size);
  }

  /// The offset from which all is free up to the top, and above it.
  std::uint64_t free_to_top() const {
    if (by_offset_.empty()) return top_;
    const auto& [offset, size] = *by_offset_.rbegin();
    return offset + size == top_ ? offset : top_;
  }

 private:
  using ByOffset = std::map<std::uint64_t, std::uint64_t>;
  void insert(std::uint64_t offset, std::uint64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void erase(ByOffset::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    by_offset_.erase(gap);
  }

  ByOffset by_offset_;
  BySize by_size_;
  std::uint64_t top_ = 0;
};

/// Ranges side by side from 0, each with the op at which it is taken again; the least of these over a stretch.
class Returns {
 public:
  void add(std::uint64_t bytes, std::int64_t op) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + bytes);
    ops_.push_back(op);
  }
  void build() {
    leaves_ = std::bit_ceil(std::max<std::size_t>(ops_.size(), 1));
    least_.assign(2 * leaves_, kNever);
    std::ranges::copy(ops_, least_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t i = leaves_ - 1; i > 0; --i) least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
  }
  std::int64_t first_in(std::uint64_t offset, std::uint64_t size) const {
    const auto number = [&](std::uint64_t at) {
      return static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
    };
    std::size_t low = number(offset) + leaves_;
    std::size_t high = std::min(number(offset + size - 1) + 1, ops_.size()) + leaves_;
    std::int64_t first = kNever;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) first = std::min(first, least_[low++]);
      if (high % 2 == 1) first = std::min(first, least_[--high]);
    }
    return first;
  }

 private:
  std::vector<std::uint64_t> ends_;
  std::vector<std::int64_t> ops_;
  std::vector<std::int64_t> least_;
  std::size_t leaves_ = 1;
};

class OnlinePacker {
 public:
  OnlinePacker(const std::vector<Interval>& intervals, std::uint32_t ops)
      : intervals_(intervals), ops_(ops), offsets_(intervals.size()) {}

  std::vector<std::uint64_t> pack() {
    stack_wrapping();
    std::vector<std::uint32_t> order(intervals_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) {
      // What is there already comes first, then the largest.
      return std::tuple(intervals_[i].begin, !wraps(i), ~intervals_[i].bytes);
    });
    for (const std::uint32_t i : order) {
      const Interval& interval = intervals_[i];
      for (; !given_back_.empty() && given_back_.top().first <= interval.begin; given_back_.pop()) {
        const std::uint32_t back = given_back_.top().second;
        gaps_.free(offsets_[back], intervals_[back].bytes);
      }
      if (wraps(i)) {
        if (!is_whole(i)) gaps_.take(offsets_[i], interval.bytes);
        continue;
      }
      offsets_[i] = find(interval);
      gaps_.take(offsets_[i], interval.bytes);
      given_back_.emplace(interval.release, i);
    }
    return std::move(offsets_);
  }

 private:
  bool wraps(std::uint32_t i) const { return intervals_[i].release > ops_ || is_whole(i); }
  bool is_whole(std::uint32_t i) const { return intervals_[i].release - intervals_[i].begin >= ops_; }

  /// The longest at the bottom; that leaves the most room above for what begins later.
  void stack_wrapping() {
    std::vector<std::uint32_t> stack;
    for (std::uint32_t i = 0; i < intervals_.size(); ++i) {
      if (wraps(i)) stack.push_back(i);
    }
    std::ranges::stable_sort(stack, std::ranges::greater(),
                             [&](std::uint32_t i) { return intervals_[i].release - intervals_[i].begin; });
    const auto first_loose =
        std::ranges::stable_partition(stack, [&](std::uint32_t i) { return intervals_[i].fixed; }).begin();
    std::sort(stack.begin(), first_loose,
              [&](std::uint32_t a, std::uint32_t b) { return intervals_[a].offset < intervals_[b].offset; });
    for (const std::uint32_t i : stack) {
      offsets_[i] = intervals_[i].fixed ? intervals_[i].offset : gaps_.top();
      if (offsets_[i] > gaps_.top()) returns_.add(offsets_[i] - gaps_.top(), kNever);
      gaps_.take(offsets_[i], intervals_[i].bytes);
      returns_.add(intervals_[i].bytes, is_whole(i) ? kNever : intervals_[i].begin);
      if (!is_whole(i)) given_back_.emplace(intervals_[i].release - ops_, i);
    }
    returns_.build();
    stack_end_ = gaps_.top();
  }

  std::uint64_t find(const Interval& interval) const {
    const auto is_free_until = [&](std::uint64_t offset) {
      return offset >= stack_end_ || returns_.first_in(offset, interval.bytes) >= interval.release;
    };
    int tries = 0;
    for (auto gap = gaps_.by_size().lower_bound({interval.bytes, 0}); gap != gaps_.by_size().end() && tries < kMaxTries;
         ++gap, ++tries) {
      const auto& [size, offset] = *gap;
      if (is_free_until(offset)) return offset;
      if (is_free_until(offset + size - interval.bytes)) return offset + size - interval.bytes;
    }
    const std::uint64_t above = gaps_.free_to_top();
    return is_free_until(above) ? above : std::max(above, stack_end_);
  }

  const std::vector<Interval>& intervals_;
  std::uint32_t ops_;
  std::vector<std::uint64_t> offsets_;
  Gaps gaps_;
  Returns returns_;
  std::uint64_t stack_end_ = 0;
  std::priority_queue<std::pair<std::int64_t, std::uint32_t>, std::vector<std::pair<std::int64_t, std::uint32_t>>,
                      std::greater<>>
      given_back_;
};

}  // namespace

std::vector<std::uint64_t> pack_online(const std::vector<Interval>& intervals, std::uint32_t ops) {
  return OnlinePacker(intervals, ops).pack();
}

}  // namespace tensorpager::planning
