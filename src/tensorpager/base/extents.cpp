#include "tensorpager/base/extents.h"

#include <bit>
#include <iterator>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

std::uint64_t align_up(std::uint64_t offset, Bytes alignment) { return round_up(Bytes(offset), alignment).count(); }

}  // namespace

Extents::Extents(Bytes limit, Bytes granule) : limit_(limit), granule_(granule) {
  TENSORPAGER_CHECK(std::has_single_bit(granule.count()) && limit <= kUnlimited);
}

std::optional<std::uint64_t> Extents::take(Bytes size, Bytes alignment) {
  TENSORPAGER_CHECK(size > 0_B && std::has_single_bit(alignment.count()) && alignment >= granule_);
  if (size > limit_ || alignment > kUnlimited) return std::nullopt;
  const Bytes rounded = round_up(size, granule_);
  const std::uint64_t length = rounded.count();

  // If the alignment is above the granule, a gap may be long enough and still not fit; a gap that is longer by the
  // alignment always fits.
  for (auto candidate = by_size_.lower_bound({length, 0}); candidate != by_size_.end(); ++candidate) {
    const auto [gap_size, gap] = *candidate;
    const std::uint64_t offset = align_up(gap, alignment);
    if (offset + length > gap + gap_size) continue;
    erase_gap(by_offset_.find(gap));
    insert_gap(gap, offset - gap);
    insert_gap(offset + length, gap + gap_size - offset - length);
    taken_ += rounded;
    return offset;
  }

  // Grows the used part; the bytes that alignment skips become a gap.
  const std::uint64_t offset = align_up(top_, alignment);
  if (Bytes(offset + length) > limit_) return std::nullopt;
  insert_gap(top_, offset - top_);
  top_ = offset + length;
  taken_ += rounded;
  return offset;
}

void Extents::give_back(std::uint64_t offset, Bytes size) {
  const Bytes rounded = round_up(size, granule_);
  std::uint64_t begin = offset;
  std::uint64_t end = offset + rounded.count();
  const auto next = by_offset_.lower_bound(begin);
  const auto previous = next == by_offset_.begin() ? by_offset_.end() : std::prev(next);
  const bool has_next = next != by_offset_.end();
  const bool has_previous = previous != by_offset_.end();
  TENSORPAGER_CHECK(size > 0_B && end <= top_ && align_up(offset, granule_) == offset);
  TENSORPAGER_CHECK(!has_next || end <= next->first);
  TENSORPAGER_CHECK(!has_previous || previous->first + previous->second <= begin);

  taken_ -= rounded;
  if (has_next && next->first == end) {
    end += next->second;
    erase_gap(next);
  }
  if (has_previous && previous->first + previous->second == begin) {
    begin = previous->first;
    erase_gap(previous);
  }
  // No gap ever touches top: the free tail is not a gap but a lower top.
  if (end == top_) {
    top_ = begin;
  } else {
    insert_gap(begin, end - begin);
  }
}

void Extents::insert_gap(std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return;
  by_offset_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Extents::erase_gap(std::map<std::uint64_t, std::uint64_t>::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  by_offset_.erase(gap);
}

}  // namespace tensorpager::base
