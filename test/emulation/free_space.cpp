#include "free_space.h"

#include <iterator>
#include <utility>

namespace mini_pager {

void FreeSpace::add(char* at, std::size_t bytes, Fence fence) {
  const auto added = ranges_.emplace(at, Free{bytes, std::move(fence)}).first;
  merge_with_next(added);
  if (added != ranges_.begin()) merge_with_next(std::prev(added));
}

void FreeSpace::merge_with_next(Ranges::iterator range) {
  const auto next = std::next(range);
  Free& merged = range->second;
  if (next == ranges_.end() || range->first + merged.bytes != next->first) return;
  merged.bytes += next->second.bytes;
  if (waits_.keeps(Wait::kBothFencesOfMerge)) merged.fence.merge(next->second.fence);
  ranges_.erase(next);
}

std::optional<FreeSpace::Range> FreeSpace::take(std::size_t bytes) {
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (range->second.bytes < bytes) continue;
    auto [at, free] = std::move(*range);
    ranges_.erase(range);
    if (free.bytes > bytes) ranges_.emplace(at + bytes, Free{free.bytes - bytes, free.fence});
    return Range{at, std::move(free.fence)};
  }
  return std::nullopt;
}

}  // namespace mini_pager
