#include "tensorpager/plan/placed_blocks.h"

#include <algorithm>

namespace tensorpager::plan {

PlacedBlocks::Stretch PlacedBlocks::stretch(std::int64_t begin, std::int64_t end) const {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(std::min<std::int64_t>(end - begin, ops()))};
}

bool PlacedBlocks::meet(Stretch a, Stretch b) const {
  return distance(a.begin, b.begin) < a.length || distance(b.begin, a.begin) < b.length;
}

PlacedBlocks::Block PlacedBlocks::block_of(const Interval& interval, std::uint64_t offset) const {
  return {.offset = offset,
          .end = offset + interval.bytes,
          .taken = stretch(interval.begin, interval.release),
          .resident = stretch(interval.need, interval.end)};
}

void PlacedBlocks::add(const Interval& interval, std::uint64_t offset) {
  blocks_.insert(std::ranges::upper_bound(blocks_, offset, {}, &Block::offset), block_of(interval, offset));
}

void PlacedBlocks::retire(std::int64_t op) {
  std::erase_if(blocks_, [&](const Block& block) {
    const std::int64_t release = std::int64_t{block.taken.begin} + block.taken.length;
    return release <= op && release <= ops();
  });
}

std::uint64_t PlacedBlocks::find(const Interval& interval, Fit fit) {
  looks_ += blocks_.size();
  const Stretch taken = stretch(interval.begin, interval.release);
  std::uint64_t free_from = 0;
  std::uint64_t best = UINT64_MAX;
  std::uint64_t best_gap = UINT64_MAX;
  for (const Block& block : blocks_) {
    if (!meet(taken, block.taken)) continue;
    if (block.offset >= free_from + interval.bytes) {
      const std::uint64_t gap = block.offset - free_from;
      if (gap < best_gap) {
        best = free_from;
        best_gap = gap;
        if (fit == Fit::kLowest || gap == interval.bytes) return best;
      }
    }
    free_from = std::max(free_from, block.end);
  }
  return best == UINT64_MAX ? free_from : best;
}

Nanoseconds PlacedBlocks::time_between(std::uint32_t from, std::uint32_t to) const {
  return to >= from ? starts_[to] - starts_[from] : starts_[to] + starts_.back() - starts_[from];
}

/// By how much transfers meet where `then` follows `first` in one range.
Nanoseconds PlacedBlocks::delay(const Block& first, const Block& then) const {
  const std::uint32_t released = (first.taken.begin + first.taken.length) % ops();
  const std::uint32_t between = distance(first.resident.begin, then.taken.begin);
  if (between >= distance(first.resident.begin, released) && first.taken.length < ops()) return Nanoseconds(0);
  return time_between(then.taken.begin, released);
}

std::uint64_t PlacedBlocks::find_over_transfers(const Interval& interval, std::uint64_t space) {
  const Block wanted = block_of(interval, 0);
  overlaps_.clear();
  looks_ += blocks_.size();
  for (const Block& block : blocks_) {
    if (!meet(wanted.taken, block.taken)) continue;
    const Nanoseconds wait = meet(wanted.resident, block.resident)
                                 ? Nanoseconds::max()
                                 : std::max(delay(block, wanted), delay(wanted, block));
    const std::uint64_t highest = overlaps_.empty() ? 0 : overlaps_.back().highest;
    overlaps_.push_back({block.offset, block.end, std::max(highest, block.end), wait});
  }
  std::uint64_t best = UINT64_MAX;
  Nanoseconds best_wait = Nanoseconds::max();
  const auto offer = [&](std::uint64_t offset) {
    const std::uint64_t end = offset + interval.bytes;
    if (end > space) return;
    Nanoseconds wait{0};
    // None of those before the first reaches up to the offset.
    for (auto other = std::ranges::upper_bound(overlaps_, offset, {}, &Overlap::highest);
         other != overlaps_.end() && other->offset < end; ++other) {
      if (other->end > offset) wait = std::max(wait, other->delay);
      if (wait >= best_wait) return;
    }
    best = offset;
    best_wait = wait;
  };
  offer(0);
  if (space >= interval.bytes) offer(space - interval.bytes);
  for (const Overlap& other : overlaps_) {
    offer(other.end);
    if (other.offset >= interval.bytes) offer(other.offset - interval.bytes);
  }
  return best == UINT64_MAX ? space : best;
}

}  // namespace tensorpager::plan
