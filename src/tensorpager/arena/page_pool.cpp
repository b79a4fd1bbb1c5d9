#include "tensorpager/arena/page_pool.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace tensorpager::arena {
namespace {

using base::Bytes;

/// Programs whose sizes never repeat leave an empty bucket for each size; they are swept at this many.
constexpr std::size_t kManyBuckets = 4096;

/// What is no number of huge pages is cut from the end, which leaves the rest of a large piece aligned.
bool is_cut_from_end(Bytes size) { return size.count() % base::kHugePage.count() != 0; }
bool is_huge_aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % base::kHugePage.count() == 0;
}

}  // namespace

void PagePool::put(Piece piece) {
  Index index;
  if (free_records_.empty()) {
    index = static_cast<Index>(records_.size());
    records_.emplace_back();
    free_records_.reserve(records_.capacity());
  } else {
    index = free_records_.back();
    free_records_.pop_back();
  }
  if (buckets_.size() > kManyBuckets) forget_empty_buckets();
  Index& top = buckets_.try_emplace(piece.bytes, kNone).first->second;
  records_[index] = {piece, newest_, kNone, top, kNone};
  if (top != kNone) records_[top].above = index;
  top = index;
  (newest_ != kNone ? records_[newest_].newer : oldest_) = index;
  newest_ = index;
  bytes_ += piece.bytes;
}

Piece PagePool::remove(Buckets::iterator bucket, Index index) {
  const Record& record = records_[index];
  (record.older != kNone ? records_[record.older].newer : oldest_) = record.newer;
  (record.newer != kNone ? records_[record.newer].older : newest_) = record.older;
  if (record.below != kNone) records_[record.below].above = record.above;
  (record.above != kNone ? records_[record.above].below : bucket->second) = record.below;
  bytes_ -= record.piece.bytes;
  free_records_.push_back(index);
  return record.piece;
}

std::byte* PagePool::take_exact(Bytes size) {
  const auto bucket = buckets_.find(size);
  if (bucket == buckets_.end() || bucket->second == kNone) return nullptr;
  return remove(bucket, bucket->second).at;
}

PagePool::Buckets::iterator PagePool::covering(Bytes size) {
  auto bucket = buckets_.lower_bound(size);
  while (bucket != buckets_.end() && bucket->second == kNone) bucket = buckets_.erase(bucket);
  return bucket;
}

Piece PagePool::cut(const Piece& piece, Bytes size, bool from_end) {
  const Bytes rest = piece.bytes - size;
  if (rest == Bytes(0)) return piece;
  put({from_end ? piece.at : piece.at + size.count(), rest});
  return {from_end ? piece.at + rest.count() : piece.at, size};
}

std::optional<Piece> PagePool::take_covering(Bytes size) {
  const auto bucket = covering(size);
  if (bucket == buckets_.end()) return std::nullopt;
  const Piece piece = remove(bucket, bucket->second);
  const bool is_end_good = size < base::kHugePage || is_huge_aligned(piece.at + (piece.bytes - size).count());
  return cut(piece, size, is_cut_from_end(size) && is_end_good);
}

void PagePool::coalesce(Bytes size) {
  std::vector<Piece> pieces;  // by place
  pieces.reserve(this->pieces());
  for (Index index = oldest_; index != kNone; index = records_[index].newer) pieces.push_back(records_[index].piece);
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
    const auto bucket = buckets_.find(piece.bytes);
    Index index = bucket->second;
    while (records_[index].piece.at != piece.at) index = records_[index].below;
    remove(bucket, index);
  }
  put(joined);
}

std::optional<Piece> PagePool::take_one(Bytes size, Bytes least) {
  auto bucket = covering(std::max(size, least));
  if (bucket == buckets_.end()) {
    while (bucket != buckets_.begin()) {
      const auto candidate = std::prev(bucket);
      if (candidate->first < least) return std::nullopt;
      if (candidate->second != kNone) {
        bucket = candidate;
        break;
      }
      bucket = buckets_.erase(candidate);
    }
    if (bucket == buckets_.end() || bucket->second == kNone) return std::nullopt;
  }
  const Piece piece = remove(bucket, bucket->second);
  return piece.bytes <= size ? piece : cut(piece, size, is_cut_from_end(size));
}

std::vector<Piece> PagePool::take_up_to(Bytes size, std::size_t limit) {
  std::vector<Piece> pieces;
  const Bytes huge_part(size.count() / base::kHugePage.count() * base::kHugePage.count());
  const auto collect = [&](Bytes wanted, Bytes least) {
    while (wanted > Bytes(0) && pieces.size() < limit) {
      const auto piece = take_one(wanted, least);
      if (!piece) return;
      wanted -= piece->bytes;
      pieces.push_back(*piece);
    }
  };
  if (huge_part > Bytes(0)) {
    if (const auto bucket = buckets_.find(size); bucket != buckets_.end() && bucket->second != kNone)
      return {remove(bucket, bucket->second)};
    collect(huge_part, base::kHugePage);
    Bytes got;
    for (const Piece& piece : pieces) got += piece.bytes;
    if (got < huge_part) return pieces;
  }
  collect(size - huge_part, base::kPage);
  return pieces;
}

std::optional<Piece> PagePool::take_oldest() {
  if (oldest_ == kNone) return std::nullopt;
  return remove(buckets_.find(records_[oldest_].piece.bytes), oldest_);
}

void PagePool::forget_empty_buckets() {
  std::erase_if(buckets_, [](const auto& bucket) { return bucket.second == kNone; });
}

}  // namespace tensorpager::arena
