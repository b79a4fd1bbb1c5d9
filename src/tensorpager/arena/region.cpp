#include "tensorpager/arena/region.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "tensorpager/base/errors.h"

namespace tensorpager::arena {

using base::Bytes;

namespace {

/// After so many changes without a query the index is dropped. To build it again takes as long as some changes for each
/// piece, of which there are often hundreds.
constexpr int kMostUnasked = 256;

}  // namespace

const Gaps& Region::gaps() const {
  changes_unasked_ = 0;
  if (gaps_) return *gaps_;
  Gaps& gaps = gaps_.emplace();
  std::uint64_t end = 0;
  for (const auto& [offset, size] : taken_) {
    gaps.add(end, std::min(offset, limit_));
    end = offset + size;
  }
  gaps.add(end, limit_);
  return gaps;
}

bool Region::keeps_gaps() {
  if (gaps_ && ++changes_unasked_ > kMostUnasked) gaps_.reset();
  return gaps_.has_value();
}

void Region::set_limit(Bytes limit) {
  limit_ = limit.count();
  gaps_.reset();
}

bool Region::fits(std::uint64_t begin, std::uint64_t end, Bytes size) const {
  return std::max(begin, kept_low_) + size.count() <= end;
}

bool Region::has_gap(Bytes size) const {
  const Gaps::BySize& by_size = gaps().by_size();
  for (auto it = by_size.lower_bound({size.count(), 0}); it != by_size.end(); ++it)
    if (fits(it->second, it->second + it->first, size)) return true;
  return false;
}

bool Region::has_gap_beside(std::uint64_t taken, Bytes taken_size, Bytes size) const {
  const std::uint64_t taken_end = taken + taken_size.count();
  const Gaps::BySize& by_size = gaps().by_size();
  for (auto it = by_size.lower_bound({size.count(), 0}); it != by_size.end(); ++it) {
    const std::uint64_t begin = it->second, end = begin + it->first;
    const bool is_parted = begin <= taken && taken_end <= end;
    if (is_parted ? fits(begin, taken, size) || fits(taken_end, end, size) : fits(begin, end, size)) return true;
  }
  return false;
}

std::optional<std::uint64_t> Region::find_gap(Bytes size) const {
  const auto at = find_gap_above(kept_low_, size);
  return at ? at : find_gap_above(strictly_low_, size);
}

std::optional<std::uint64_t> Region::find_gap_above(std::uint64_t least, Bytes size) const {
  const Gaps::BySize& by_size = gaps().by_size();
  for (auto it = by_size.lower_bound({size.count(), 0}); it != by_size.end(); ++it) {
    const std::uint64_t at = rounded_down(it->second + it->first - size.count());
    if (at >= std::max(it->second, least)) return at;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Region::find_gap_within(std::uint64_t begin, std::uint64_t end, Bytes size) const {
  const Gaps::ByBegin& by_begin = gaps().by_begin();
  for (auto gap = by_begin.lower_bound(end); gap != by_begin.begin();) {
    --gap;
    const std::uint64_t gap_begin = std::max(gap->first, begin), gap_end = std::min(gap->second, end);
    if (gap_begin + size.count() <= gap_end) return rounded_down(gap_end - size.count());
    if (gap->first <= begin) break;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> Region::pieces_in(std::uint64_t begin, Bytes size) const {
  std::vector<std::uint64_t> pieces;
  all_pieces_in(begin, size, [&](std::uint64_t piece) {
    pieces.push_back(piece);
    return true;
  });
  return pieces;
}

/// The first piece that ends behind `begin`.
std::map<std::uint64_t, std::uint64_t>::const_iterator Region::first_piece_in(std::uint64_t begin) const {
  const auto behind = taken_.upper_bound(begin);
  if (behind == taken_.begin()) return behind;
  const auto before = std::prev(behind);
  return before->first + before->second > begin ? before : behind;
}

void Region::take(std::uint64_t offset, Bytes size) {
  const std::uint64_t end = offset + size.count();
  TENSORPAGER_CHECK(end <= limit_ && all_pieces_in(offset, size, [](std::uint64_t) { return false; }));
  if (keeps_gaps()) gaps_->take(offset, end);
  taken_.emplace(offset, size.count());
  taken_bytes_ += size;
}

void Region::give_back(std::uint64_t offset) {
  const auto piece = taken_.find(offset);
  TENSORPAGER_CHECK(piece != taken_.end());
  const std::uint64_t size = piece->second;
  if (keeps_gaps()) gaps_->give_back(offset, std::min(offset + size, limit_));
  taken_bytes_ -= Bytes(size);
  taken_.erase(piece);
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

std::optional<Region::Run> Region::run_at(const std::vector<Span>& all, const std::vector<std::optional<double>>& costs,
                                          std::uint64_t begin, Bytes size, double& best) const {
  const std::uint64_t end = begin + size.count();
  const auto before =
      std::upper_bound(all.begin(), all.end(), begin, [](std::uint64_t at, const Span& span) { return at < span.end; });
  Run run{.offset = begin, .to_remove = {}};
  double sum = 0;
  std::size_t i = static_cast<std::size_t>(before - all.begin());
  for (; i < all.size() && all[i].begin < end; ++i) {
    if (!costs[i]) return std::nullopt;
    sum += *costs[i];
    if (sum >= best) return std::nullopt;
    if (all[i].taken) run.to_remove.push_back(all[i].begin);
    if (all[i].end >= end) {
      best = sum;
      return run;
    }
  }
  return std::nullopt;
}

std::optional<Region::Run> Region::cheapest_run(Bytes size, Fit fit, const Cost& cost) const {
  const std::vector<Span> all = spans();
  std::vector<std::optional<double>> costs(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    costs[i] = !all[i].taken         ? std::make_optional(0.0)
               : all[i].end > limit_ ? std::nullopt
                                     : cost(all[i].begin, Bytes(all[i].end - all[i].begin));
  double best = std::numeric_limits<double>::infinity();
  std::optional<Run> cheapest;
  std::uint64_t least = kept_low_;
  const auto try_at = [&](std::uint64_t begin) {
    if (begin < least) return;
    if (auto run = run_at(all, costs, begin, size, best)) cheapest = std::move(run);
  };
  const auto is_fixed = [&](std::size_t i) { return i >= all.size() || !costs[i]; };
  const auto search = [&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_fixed(i)) continue;
      const std::uint64_t begin = all[i].end > least ? std::max(all[i].begin, least) : all[i].begin;
      if (fit == Fit::kCheapest) {
        try_at(begin);
        continue;
      }
      if (is_fixed(i + 1) && all[i].end >= size.count()) try_at(rounded_down(all[i].end - size.count()));
      if (i == 0 || is_fixed(i - 1) || (all[i].begin < least && all[i].end > least)) try_at(begin);
    }
  };
  search();
  if (!cheapest && least > 0) {
    if (const auto gap = find_gap_above(0, size)) return Run{.offset = *gap, .to_remove = {}};
    least = 0;
    search();
  }
  return cheapest;
}

Bytes Region::largest_run(const Cost& cost) const {
  std::uint64_t largest = 0, begin = kept_low_;
  for (const Span& span : spans()) {
    if (span.taken && (span.end > limit_ || !cost(span.begin, Bytes(span.end - span.begin))))
      begin = std::max(span.end, kept_low_);
    if (span.end > begin) largest = std::max(largest, span.end - begin);
  }
  return Bytes(largest);
}

Region::Compaction Region::compaction(const std::function<Piece(std::uint64_t)>& kind) const {
  Compaction result;
  std::uint64_t low = kept_low_;  // where the run's movable pieces end once gathered
  std::vector<Span> removable;
  const auto end_run = [&](std::uint64_t end) {
    for (const Span& span : removable)
      if (span.begin < low) result.to_remove.push_back(span.begin);
    removable.clear();
    if (end > low) result.largest_run = std::max(result.largest_run, Bytes(end - low));
  };
  for (const Span& span : spans()) {
    if (!span.taken) continue;
    if (span.end <= low) continue;
    const Piece piece = span.end > limit_ || span.begin < low ? Piece::kFixed : kind(span.begin);
    if (piece == Piece::kFixed) {
      end_run(span.begin);
      low = std::max(span.end, kept_low_);
    } else if (piece == Piece::kRemovable) {
      removable.push_back(span);
    } else {
      if (span.begin != low) result.slides.push_back({span.begin, low});
      low += span.end - span.begin;
    }
  }
  end_run(limit_);
  return result;
}

void Region::slide(const Slide& slide) {
  const Bytes size(taken_.at(slide.from));
  give_back(slide.from);
  take(slide.to, size);
}

std::vector<std::uint64_t> Region::beyond_limit() const {
  std::vector<std::uint64_t> beyond;
  for (auto it = taken_.rbegin(); it != taken_.rend() && it->first + it->second > limit_; ++it)
    beyond.push_back(it->first);
  return beyond;
}

}  // namespace tensorpager::arena
