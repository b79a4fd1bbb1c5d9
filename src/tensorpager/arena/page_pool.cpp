#include "tensorpager/arena/page_pool.h"

#include <algorithm>
#include <iterator>

namespace tensorpager::arena {
namespace {

using base::Bytes;
using base::kHugePage;

/// Programs whose sizes never repeat leave an empty bucket for each size; they are swept at this many.
constexpr std::size_t kManyBuckets = 4096;

Bytes in_huge_pages(Bytes size) { return base::round_down(size, kHugePage); }

}  // namespace

bool PagePool::is_huge(const Piece& piece) const {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(piece.at) % kHugePage.count() == 0;
  return options_.has_huge_pages && piece.bytes >= kHugePage && is_aligned;
}

void PagePool::put(Piece piece, bool as_huge) {
  Index index;
  if (free_records_.empty()) {
    index = static_cast<Index>(records_.size());
    records_.emplace_back();
    free_records_.reserve(records_.capacity());
  } else {
    index = free_records_.back();
    free_records_.pop_back();
  }
  Kind& kind = as_huge ? huge_ : small_;
  if (kind.buckets.size() > kManyBuckets) forget_empty_buckets(kind);
  Index& top = kind.buckets.try_emplace(piece.bytes, kNone).first->second;
  records_[index] = {piece, kind.newest, kNone, top, kNone};
  if (top != kNone) records_[top].above = index;
  top = index;
  (kind.newest != kNone ? records_[kind.newest].newer : kind.oldest) = index;
  kind.newest = index;
  kind.bytes += piece.bytes;
  bytes_ += piece.bytes;
}

Piece PagePool::remove(Kind& kind, Buckets::iterator bucket, Index index) {
  const Record& record = records_[index];
  (record.older != kNone ? records_[record.older].newer : kind.oldest) = record.newer;
  (record.newer != kNone ? records_[record.newer].older : kind.newest) = record.older;
  if (record.below != kNone) records_[record.below].above = record.above;
  (record.above != kNone ? records_[record.above].below : bucket->second) = record.below;
  kind.bytes -= record.piece.bytes;
  bytes_ -= record.piece.bytes;
  free_records_.push_back(index);
  return record.piece;
}

std::byte* PagePool::take_exact(Bytes size) {
  Kind& kind = kind_for(size);
  const auto bucket = kind.buckets.find(size);
  if (bucket == kind.buckets.end() || bucket->second == kNone) return nullptr;
  return remove_newest(kind, bucket).at;
}

PagePool::Buckets::iterator PagePool::covering(Kind& kind, Bytes size) {
  auto bucket = kind.buckets.lower_bound(size);
  while (bucket != kind.buckets.end() && bucket->second == kNone) bucket = kind.buckets.erase(bucket);
  return bucket;
}

PagePool::Buckets::iterator PagePool::largest(Kind& kind) {
  while (!kind.buckets.empty()) {
    const auto last = std::prev(kind.buckets.end());
    if (last->second != kNone) return last;
    kind.buckets.erase(last);
  }
  return kind.buckets.end();
}

Piece PagePool::cut_front(const Piece& piece, Bytes size, bool as_huge) {
  const Piece rest{piece.at + size.count(), piece.bytes - size};
  if (rest.bytes > Bytes(0)) put(rest, as_huge && is_huge(rest));
  return {piece.at, size};
}

Piece PagePool::cut_end(const Piece& piece, Bytes size, bool as_huge) {
  const Piece rest{piece.at, piece.bytes - size};
  if (rest.bytes > Bytes(0)) put(rest, as_huge && is_huge(rest));
  return {piece.at + rest.bytes.count(), size};
}

std::vector<Piece> PagePool::gather(Bytes size) {
  if (std::byte* at = take_exact(size)) return {{at, size}};
  std::vector<Piece> pieces;
  if (&kind_for(size) == &small_) {
    gather_small(size, pieces);
    return pieces;
  }
  gather_huge(in_huge_pages(size), pieces);
  Bytes got;
  for (const Piece& piece : pieces) got += piece.bytes;
  if (got == in_huge_pages(size)) gather_small(size - got, pieces);
  return pieces;
}

/// Takes from the front of pieces, which leaves the rest aligned.
void PagePool::gather_huge(Bytes size, std::vector<Piece>& pieces) {
  while (size > Bytes(0) && pieces.size() < options_.most_pieces) {
    auto bucket = covering(huge_, size);
    if (bucket == huge_.buckets.end()) bucket = largest(huge_);
    if (bucket == huge_.buckets.end()) return;
    const Piece piece = remove_newest(huge_, bucket);
    pieces.push_back(cut_front(piece, std::min(size, in_huge_pages(piece.bytes)), true));
    size -= pieces.back().bytes;
  }
}

void PagePool::gather_small(Bytes size, std::vector<Piece>& pieces) {
  if (size == Bytes(0)) return;
  auto piece = take_covering(small_, size);
  if (!piece) piece = take_after_huge_pages(size);
  if (!piece && options_.joins && small_.bytes >= size) {
    coalesce(size);
    piece = take_covering(small_, size);
  }
  if (piece) return pieces.push_back(*piece);
  const bool is_enough = small_.bytes >= size;
  while (is_enough || huge_.bytes == Bytes(0)) {
    const auto bucket = covering(small_, size);
    const bool covers = bucket != small_.buckets.end();
    if (!covers && (pieces.size() + 1 >= options_.most_pieces || largest(small_) == small_.buckets.end())) break;
    pieces.push_back(covers ? *take_covering(small_, size) : remove_newest(small_, largest(small_)));
    size -= pieces.back().bytes;
    if (size == Bytes(0)) return;
  }
  if (const auto broken = take_covering(huge_, size)) pieces.push_back(*broken);
}

std::optional<Piece> PagePool::take_covering(Kind& kind, Bytes size) {
  const auto bucket = covering(kind, size);
  if (bucket == kind.buckets.end()) return std::nullopt;
  return cut_end(remove_newest(kind, bucket), size, &kind == &huge_);
}

/// Takes from what large pieces have behind their last huge page; the smallest that covers it.
std::optional<Piece> PagePool::take_after_huge_pages(Bytes size) {
  auto tightest = huge_.buckets.end();
  const auto rest_of = [](const auto& bucket) { return bucket->first - in_huge_pages(bucket->first); };
  for (auto bucket = huge_.buckets.begin(); bucket != huge_.buckets.end();) {
    if (bucket->second == kNone) {
      bucket = huge_.buckets.erase(bucket);
      continue;
    }
    const bool is_tighter = tightest == huge_.buckets.end() || rest_of(bucket) < rest_of(tightest);
    if (rest_of(bucket) >= size && is_tighter) tightest = bucket;
    ++bucket;
  }
  if (tightest == huge_.buckets.end()) return std::nullopt;
  return cut_end(remove_newest(huge_, tightest), size, true);
}

void PagePool::coalesce(Bytes size) {
  std::vector<Piece> pieces;  // by place
  for (Index index = small_.oldest; index != kNone; index = records_[index].newer)
    pieces.push_back(records_[index].piece);
  std::ranges::sort(pieces, {}, &Piece::at);

  using Run = std::span<const Piece>;
  std::vector<Run> runs;  // of neighbours, two at least
  Run tightest;
  Bytes least = base::kUnlimited;
  for (std::size_t first = 0, end = 0; first < pieces.size(); first = end) {
    std::size_t begin = first;  // of the shortest run up to `end` that covers
    Bytes sum;
    do {
      sum += pieces[end++].bytes;
      while (sum - pieces[begin].bytes >= size) sum -= pieces[begin++].bytes;
      if (sum < size || sum >= least) continue;
      tightest = Run(pieces).subspan(begin, end - begin);
      least = sum;
    } while (end < pieces.size() && pieces[end - 1].at + pieces[end - 1].bytes.count() == pieces[end].at);
    if (end - first > 1) runs.push_back(Run(pieces).subspan(first, end - first));
  }
  if (!tightest.empty()) runs = {tightest};
  for (const Run& run : runs) join(run);
}

void PagePool::join(std::span<const Piece> run) {
  Piece joined{run.front().at, Bytes(0)};
  for (const Piece& piece : run) joined.bytes += piece.bytes;
  for (const Piece& piece : run) {
    const auto bucket = small_.buckets.find(piece.bytes);
    Index index = bucket->second;
    while (records_[index].piece.at != piece.at) index = records_[index].below;
    remove(small_, bucket, index);
  }
  put(joined, false);
}

std::optional<Piece> PagePool::take_oldest(Bytes wanted) {
  Kind& kind = small_.oldest != kNone ? small_ : huge_;
  if (kind.oldest == kNone) return std::nullopt;
  const Piece piece = remove(kind, kind.buckets.find(records_[kind.oldest].piece.bytes), kind.oldest);
  if (piece.bytes < kHugePage || wanted >= piece.bytes) return piece;
  return cut_end(piece, base::round_up(wanted, base::kPage), &kind == &huge_);
}

void PagePool::forget_empty_buckets(Kind& kind) {
  std::erase_if(kind.buckets, [](const auto& bucket) { return bucket.second == kNone; });
}

}  // namespace tensorpager::arena
