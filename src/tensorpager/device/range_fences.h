// What still uses ranges of memory that were given back: the next user of a range waits for the fence of all of it.
// Ranges that were never given back have none.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

#include "tensorpager/device/fence.h"

namespace tensorpager::device {

class RangeFences {
 public:
  /// Range [begin, end) is given back by a user that is done at `fence`, and had come behind the fence of the range
  /// when it took it: only the new fence counts from here on.
  void set(std::uint64_t begin, std::uint64_t end, const Fence& fence) {
    if (begin == end) return;
    split_at(begin);
    split_at(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    if (!fence.is_empty()) ranges_.emplace(begin, Range{end, fence});
  }

  /// The fence of all bytes of [begin, end).
  Fence over(std::uint64_t begin, std::uint64_t end) const {
    Fence fence;
    if (begin == end) return fence;
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    for (; range != ranges_.end() && range->first < end; ++range) fence |= range->second.fence;
    return fence;
  }
  std::size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    std::uint64_t end;
    Fence fence;
  };

  void split_at(std::uint64_t at) {
    auto range = ranges_.lower_bound(at);
    if (range == ranges_.begin()) return;
    --range;
    if (range->second.end <= at) return;
    ranges_.emplace(at, range->second);
    range->second.end = at;
  }

  std::map<std::uint64_t, Range> ranges_;  // by their begin; they do not overlap
};

}  // namespace tensorpager::device
