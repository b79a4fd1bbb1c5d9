// Keeps a value for each byte of a line: the last page-out that reads it, or the op from which on it is free.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace tensorpager::planning {

template <typename Value>
class NewestByRange {
 public:
  void set(std::uint64_t offset, std::uint64_t bytes, Value value) {
    const std::uint64_t end = offset + bytes;
    cut_at(offset);
    cut_at(end);
    ranges_.erase(ranges_.lower_bound(offset), ranges_.lower_bound(end));
    ranges_.emplace(offset, std::pair(end, value));
  }

  /// Returns the largest value in the range, or nullopt if none was set.
  std::optional<Value> newest(std::uint64_t offset, std::uint64_t bytes) const {
    std::optional<Value> found;
    auto range = ranges_.upper_bound(offset);
    if (range != ranges_.begin()) --range;
    for (; range != ranges_.end() && range->first < offset + bytes; ++range) {
      const auto& [end, value] = range->second;
      if (end > offset && (!found || *found < value)) found = value;
    }
    return found;
  }

 private:
  void cut_at(std::uint64_t offset) {
    const auto after = ranges_.lower_bound(offset);
    if (after == ranges_.begin()) return;
    const auto before = std::prev(after);
    if (before->second.first <= offset) return;
    ranges_.emplace_hint(after, offset, before->second);
    before->second.first = offset;
  }

  std::map<std::uint64_t, std::pair<std::uint64_t, Value>> ranges_;  // begin -> end, value
};

}  // namespace tensorpager::planning
