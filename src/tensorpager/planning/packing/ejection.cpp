#include "tensorpager/planning/packing/ejection.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace tensorpager::planning {
namespace {

constexpr std::uint64_t kFixedWeight = std::uint64_t{1} << 40;  // more than all others together

}  // namespace

Ejection::Ejection(const std::vector<Interval>& intervals, std::uint32_t ops)
    : words_((intervals.size() + 63) / 64),
      pairs_(words_ * intervals.size()),
      offsets_(intervals.size()),
      beginning_(intervals.size()),
      ending_(intervals.size()) {
  for (const Interval& interval : intervals) {
    bytes_.push_back(interval.bytes);
    fixed_.push_back(interval.fixed);
  }
  find_pairs(intervals, ops);
}

void Ejection::find_pairs(const std::vector<Interval>& intervals, std::uint32_t ops) {
  std::vector<std::uint32_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return intervals[i].begin; });
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Interval& first = intervals[order[k]];
    const auto take = [&](std::size_t next, std::int64_t begin) {
      if (begin < first.release || intervals[order[next]].fill == Fill::kBorn) set_pair(order[k], order[next]);
    };
    const std::int64_t end = first.free_for_births();
    for (std::size_t next = k + 1; next < order.size() && intervals[order[next]].begin < end; ++next)
      take(next, intervals[order[next]].begin);
    for (std::size_t next = 0; next < k && intervals[order[next]].begin + ops < end; ++next)
      take(next, intervals[order[next]].begin + ops);
  }
}

void Ejection::set_pair(std::uint32_t a, std::uint32_t b) {
  pairs_[a * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
  pairs_[b * words_ + a / 64] |= std::uint64_t{1} << (a % 64);
}

/// Those of the edges whose blocks are there together with this one: how many.
std::size_t Ejection::weigh(const Edges& edges, std::uint32_t block, std::vector<Weighed>& weighed) const {
  std::size_t count = 0;
  for (const Edge& edge : edges) {
    weighed[count] = {edge.at, weights_[edge.block]};
    count += meet(block, edge.block) ? 1 : 0;  // without a branch, which would be hard to predict
  }
  return count;
}

/// The lowest of the offsets at which the blocks in the way weigh least.
Ejection::Place Ejection::find(std::uint32_t block, std::uint64_t space) {
  const std::uint64_t bytes = bytes_[block];
  const std::span<const Weighed> begins(beginning_.data(), weigh(begins_, block, beginning_));
  const std::span<const Weighed> ends(ending_.data(), weigh(ends_, block, ending_));
  Place best{.offset = 0, .weight = UINT64_MAX};
  // In the way is what begins below the block's end, less what ends below its begin. Offsets that are asked for one
  // after the other rise.
  std::size_t begun = 0;
  std::size_t ended = 0;
  std::uint64_t weight = 0;
  const auto offer = [&](std::uint64_t offset) {
    if (offset + bytes > space) return;
    for (; begun < begins.size() && begins[begun].at < offset + bytes; ++begun) weight += begins[begun].weight;
    for (; ended < ends.size() && ends[ended].at <= offset; ++ended) weight -= ends[ended].weight;
    if (weight < best.weight) best = {.offset = offset, .weight = weight};
  };
  offer(0);
  for (const Weighed& end : ends) offer(end.at);
  if (best.weight == 0) return best;
  begun = ended = 0;
  weight = 0;
  for (const Weighed& begin : begins) {
    if (begin.at >= bytes) offer(begin.at - bytes);
  }
  if (space >= bytes) offer(space - bytes);
  return best;
}

void Ejection::put(std::uint32_t block, std::uint64_t offset) {
  const auto insert = [&](Edges& edges, std::uint64_t at) {
    edges.insert(std::ranges::upper_bound(edges, at, {}, &Edge::at), Edge{at, block});
  };
  offsets_[block] = offset;
  insert(begins_, offset);
  insert(ends_, offset + bytes_[block]);
}

void Ejection::take_away(std::uint32_t block) {
  const auto erase = [&](Edges& edges, std::uint64_t at) {
    auto edge = std::ranges::lower_bound(edges, at, {}, &Edge::at);
    while (edge->block != block) ++edge;
    edges.erase(edge);
  };
  erase(begins_, offsets_[block]);
  erase(ends_, offsets_[block] + bytes_[block]);
}

void Ejection::eject_for(std::uint32_t block, std::uint64_t offset, std::vector<std::uint32_t>& homeless) {
  const std::size_t first = homeless.size();
  for (const Edge& edge : begins_) {
    if (edge.at >= offset + bytes_[block]) break;
    if (edge.at + bytes_[edge.block] > offset && meet(block, edge.block)) homeless.push_back(edge.block);
  }
  for (std::size_t i = first; i < homeless.size(); ++i) take_away(homeless[i]);
}

bool Ejection::fit(std::vector<Interval>& intervals, std::uint64_t space, std::uint64_t& looks, From from) {
  const auto count = static_cast<std::uint32_t>(bytes_.size());
  weights_.assign(count, 1);
  begins_.clear();
  ends_.clear();
  std::vector<std::uint32_t> homeless;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (fixed_[i]) weights_[i] = kFixedWeight;
    if ((fixed_[i] || from == From::kWhereTheyAre) && intervals[i].offset + bytes_[i] <= space)
      put(i, intervals[i].offset);
    else if (fixed_[i])
      return false;
    else
      homeless.push_back(i);
  }
  if (from == From::kNowhere)
    std::ranges::stable_sort(homeless, {}, [&](std::uint32_t i) { return intervals[i].area(); });
  while (!homeless.empty()) {
    if (looks < count) return false;
    looks -= count;
    const std::uint32_t block = homeless.back();
    const Place place = find(block, space);
    if (place.weight >= kFixedWeight) return false;
    homeless.pop_back();
    if (place.weight > 0) {
      ++weights_[block];
      eject_for(block, place.offset, homeless);
    }
    put(block, place.offset);
  }
  for (std::uint32_t i = 0; i < count; ++i) intervals[i].offset = offsets_[i];
  return true;
}

}  // namespace tensorpager::planning
