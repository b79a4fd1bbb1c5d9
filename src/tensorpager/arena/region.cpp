#include "tensorpager/arena/region.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {

using base::Bytes;

std::uint64_t Region::aligned(std::uint64_t offset, Bytes alignment) const {
  const std::uint64_t unit = std::max(alignment, granule_).count();
  return (offset + unit - 1) / unit * unit;
}

void Region::add_gap(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, limit_);
  if (begin >= end) return;
  gaps_.emplace(begin, end);
  by_size_.emplace(end - begin, begin);
}

void Region::remove_gap(std::uint64_t begin, std::uint64_t end) {
  gaps_.erase(begin);
  by_size_.erase({end - begin, begin});
}

void Region::set_limit(Bytes limit) {
  limit_ = limit.count();
  gaps_.clear();
  by_size_.clear();
  std::uint64_t end = 0;
  for (const auto& [offset, size] : taken_) {
    add_gap(end, offset);
    end = offset + size;
  }
  add_gap(end, limit_);
}

bool Region::has_gap(Bytes size, Bytes alignment) const {
  for (auto it = by_size_.lower_bound({size.count(), 0}); it != by_size_.end(); ++it)
    if (aligned(it->second, alignment) + size.count() <= it->second + it->first) return true;
  return false;
}

std::optional<std::uint64_t> Region::take(Bytes size, Bytes alignment, End end) {
  const std::uint64_t unit = std::max(alignment, granule_).count();
  const auto claim = [&](std::uint64_t gap_begin, std::uint64_t gap_end) -> std::optional<std::uint64_t> {
    if (gap_end - gap_begin < size.count()) return std::nullopt;
    const std::uint64_t at =
        end == End::kLow ? aligned(gap_begin, alignment) : (gap_end - size.count()) / unit * unit;
    if (at < gap_begin || at + size.count() > gap_end) return std::nullopt;
    remove_gap(gap_begin, gap_end);
    add_gap(gap_begin, at);
    add_gap(at + size.count(), gap_end);
    taken_.emplace(at, size.count());
    taken_bytes_ += size;
    return at;
  };
  if (end == End::kLow) {
    for (const auto& [begin, gap_end] : gaps_)
      if (const auto at = claim(begin, gap_end)) return at;
    return std::nullopt;
  }
  for (auto it = by_size_.lower_bound({size.count(), 0}); it != by_size_.end(); ++it)
    if (const auto at = claim(it->second, it->second + it->first)) return at;
  return std::nullopt;
}

void Region::give_back(std::uint64_t offset) {
  const auto piece = taken_.find(offset);
  TENSORPAGER_CHECK(piece != taken_.end());
  const std::uint64_t end = offset + piece->second;
  taken_bytes_ -= Bytes(piece->second);
  taken_.erase(piece);
  std::uint64_t begin = offset;
  std::uint64_t joined_end = end;
  if (const auto after = gaps_.find(end); after != gaps_.end()) {
    joined_end = after->second;
    remove_gap(after->first, after->second);
  }
  if (auto before = gaps_.lower_bound(offset); before != gaps_.begin() && (--before)->second == offset) {
    begin = before->first;
    remove_gap(before->first, before->second);
  }
  add_gap(begin, joined_end);
}

std::vector<Region::Span> Region::spans() const {
  std::vector<Span> all;
  all.reserve(2 * taken_.size() + 1);
  std::uint64_t end = 0;
  for (const auto& [offset, size] : taken_) {
    if (offset >= limit_) break;
    if (offset > end) all.push_back({end, offset, false});
    end = offset + size;
    all.push_back({offset, end, true});
  }
  if (end < limit_) all.push_back({end, limit_, false});
  return all;
}

std::optional<std::vector<std::uint64_t>> Region::cheapest_run(Bytes size, Bytes alignment, End end,
                                                               const Cost& cost) const {
  if (end == End::kHigh && has_gap(size, alignment)) return std::vector<std::uint64_t>();
  const std::vector<Span> all = spans();
  std::vector<std::optional<double>> costs(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    costs[i] = !all[i].taken             ? std::make_optional(0.0)
               : all[i].end > limit_     ? std::nullopt
                                         : cost(all[i].begin, Bytes(all[i].end - all[i].begin));
  double best = std::numeric_limits<double>::infinity();
  std::size_t best_first = 0, best_last = 0;
  for (std::size_t first = 0; first < all.size(); ++first) {
    const std::uint64_t wanted_end = aligned(all[first].begin, alignment) + size.count();
    double sum = 0;
    for (std::size_t last = first; last < all.size() && costs[last] && sum < best; ++last) {
      sum += *costs[last];
      if (all[last].end < wanted_end) continue;
      if (sum < best) best = sum, best_first = first, best_last = last;
      break;
    }
    if (end == End::kLow && best < std::numeric_limits<double>::infinity()) break;
  }
  if (best == std::numeric_limits<double>::infinity()) return std::nullopt;
  std::vector<std::uint64_t> run;
  for (std::size_t i = best_first; i <= best_last; ++i)
    if (all[i].taken) run.push_back(all[i].begin);
  return run;
}

Bytes Region::largest_run(const Cost& cost) const {
  std::uint64_t largest = 0, begin = 0;
  for (const Span& span : spans()) {
    if (span.taken && (span.end > limit_ || !cost(span.begin, Bytes(span.end - span.begin)))) begin = span.end;
    if (span.end > begin) largest = std::max(largest, span.end - begin);
  }
  return Bytes(largest);
}

std::vector<std::uint64_t> Region::beyond_limit() const {
  std::vector<std::uint64_t> beyond;
  for (auto it = taken_.rbegin(); it != taken_.rend() && it->first + it->second > limit_; ++it)
    beyond.push_back(it->first);
  return beyond;
}

}  // namespace tensorpager::arena
