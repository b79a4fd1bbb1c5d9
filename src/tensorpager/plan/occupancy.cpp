#include "tensorpager/plan/occupancy.h"

#include <algorithm>
#include <bit>

namespace tensorpager::plan {

void RangeSet::add(Range range) {
  const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &Range::end);
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  if (first == last) {
    ranges_.insert(first, range);
  } else {
    *first = range;
    ranges_.erase(first + 1, last);
  }
}

Occupancy::Occupancy(std::uint32_t ops) : leaves_(std::bit_ceil(std::max(ops, 1u))), nodes_(2 * std::size_t{leaves_}) {}

void Occupancy::clear() {
  for (Node& node : nodes_) {
    node.somewhere.clear();
    node.everywhere.clear();
  }
}

void Occupancy::take(std::uint32_t begin, std::uint32_t end, Range range) {
  if (begin < end) take(1, 0, leaves_, begin, end, range);
}

void Occupancy::take(std::size_t node, std::uint32_t low, std::uint32_t high, std::uint32_t begin, std::uint32_t end,
                     Range range) {
  nodes_[node].somewhere.add(range);
  if (begin <= low && high <= end) {
    nodes_[node].everywhere.add(range);
    return;
  }
  const std::uint32_t middle = (low + high) / 2;
  if (begin < middle) take(2 * node, low, middle, begin, end, range);
  if (end > middle) take(2 * node + 1, middle, high, begin, end, range);
}

void Occupancy::collect(std::uint32_t begin, std::uint32_t end, std::vector<Range>& taken) const {
  if (begin < end) collect(1, 0, leaves_, begin, end, taken);
}

void Occupancy::collect(std::size_t node, std::uint32_t low, std::uint32_t high, std::uint32_t begin, std::uint32_t end,
                        std::vector<Range>& taken) const {
  const Node& here = nodes_[node];
  const bool whole = begin <= low && high <= end;
  const auto& ranges = (whole ? here.somewhere : here.everywhere).ranges();
  taken.insert(taken.end(), ranges.begin(), ranges.end());
  if (whole) return;
  const std::uint32_t middle = (low + high) / 2;
  if (begin < middle) collect(2 * node, low, middle, begin, end, taken);
  if (end > middle) collect(2 * node + 1, middle, high, begin, end, taken);
}

}  // namespace tensorpager::plan
