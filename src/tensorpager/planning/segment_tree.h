// Numbers by position, with changes to whole stretches and a search, each in logarithmic time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace tensorpager::planning {

class SegmentTree {
 public:
  explicit SegmentTree(std::size_t count)
      : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))), largest_(2 * leaves_), added_(2 * leaves_) {}

  explicit SegmentTree(const std::vector<std::int64_t>& numbers) : SegmentTree(numbers.size()) {
    std::ranges::copy(numbers, largest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    std::fill(largest_.begin() + static_cast<std::ptrdiff_t>(leaves_ + numbers.size()), largest_.end(),
              std::numeric_limits<std::int64_t>::min() / 2);  // nothing that is added makes one the largest
    for (std::size_t node = leaves_; --node > 0;) largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
  }

  std::int64_t largest() const { return largest_[1]; }

  /// Returns the first position of the largest number.
  std::size_t first_largest() const {
    std::size_t node = 1;
    while (node < leaves_) node = largest_[2 * node] >= largest_[2 * node + 1] ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

  /// Adds to all of [begin, end).
  void add(std::size_t begin, std::size_t end, std::int64_t value) {
    if (begin < end) add(1, 0, leaves_, begin, end, value);
  }

  /// Returns the last position in [begin, end) whose number is above `limit`, or nullopt.
  std::optional<std::size_t> find_last_above(std::size_t begin, std::size_t end, std::int64_t limit) const {
    if (begin >= end) return std::nullopt;
    return find(1, 0, leaves_, begin, end, limit);
  }

 private:
  void add(std::size_t node, std::size_t low, std::size_t high, std::size_t begin, std::size_t end,
           std::int64_t value) {
    if (begin <= low && high <= end) {
      largest_[node] += value;
      added_[node] += value;
      return;
    }
    const std::size_t middle = (low + high) / 2;
    if (begin < middle) add(2 * node, low, middle, begin, end, value);
    if (end > middle) add(2 * node + 1, middle, high, begin, end, value);
    largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]) + added_[node];
  }

  std::optional<std::size_t> find(std::size_t node, std::size_t low, std::size_t high, std::size_t begin,
                                  std::size_t end, std::int64_t limit) const {
    if (end <= low || high <= begin || largest_[node] <= limit) return std::nullopt;
    if (high - low == 1) return low;
    const std::size_t middle = (low + high) / 2;
    const std::int64_t below = limit - added_[node];
    if (const auto right = find(2 * node + 1, middle, high, begin, end, below)) return right;
    return find(2 * node, low, middle, begin, end, below);
  }

  std::size_t leaves_;
  std::vector<std::int64_t> largest_;  // of a node's stretch, its own additions included
  std::vector<std::int64_t> added_;    // to the whole stretch of a node
};

}  // namespace tensorpager::planning
