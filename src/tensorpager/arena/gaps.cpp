#include "tensorpager/arena/gaps.h"

#include <iterator>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {

void Gaps::add(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  by_begin_.emplace(begin, end);
  by_size_.emplace(end - begin, begin);
}

void Gaps::remove(ByBegin::iterator gap) {
  by_size_.erase({gap->second - gap->first, gap->first});
  by_begin_.erase(gap);
}

void Gaps::take(std::uint64_t begin, std::uint64_t end) {
  auto gap = by_begin_.upper_bound(begin);
  TENSORPAGER_CHECK(gap != by_begin_.begin());
  --gap;
  const auto [gap_begin, gap_end] = *gap;
  TENSORPAGER_CHECK(end <= gap_end);
  remove(gap);
  add(gap_begin, begin);
  add(end, gap_end);
}

void Gaps::give_back(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  if (const auto after = by_begin_.find(end); after != by_begin_.end()) {
    end = after->second;
    remove(after);
  }
  const auto behind = by_begin_.lower_bound(begin);
  if (behind != by_begin_.begin()) {
    const auto before = std::prev(behind);
    if (before->second == begin) {
      begin = before->first;
      remove(before);
    }
  }
  add(begin, end);
}

}  // namespace tensorpager::arena
