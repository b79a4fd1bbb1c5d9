#include "tensorpager/planning/packing/placed_blocks.h"

#include <algorithm>
#include <iterator>

namespace tensorpager::planning {
namespace {

/// A page-in that waits in its queue mostly comes in time all the same, and compute that waits never does: what a wait
/// counts there is this part.
constexpr int kHarmlessInQueue = 4;

}  // namespace

PlacedBlocks::Stretch PlacedBlocks::stretch(std::int64_t begin, std::int64_t end) const {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(std::min<std::int64_t>(end - begin, ops()))};
}

PlacedBlocks::Block PlacedBlocks::block_of(const Interval& interval, std::uint64_t offset) const {
  return {.offset = offset,
          .end = offset + interval.bytes,
          .taken = stretch(interval.begin, interval.release),
          .resident = stretch(interval.need, interval.end)};
}

void PlacedBlocks::add(const Interval& interval, std::uint64_t offset) {
  const auto above = std::ranges::upper_bound(blocks_, offset, {}, &Block::offset);
  const Block block = block_of(interval, offset);
  taken_.insert(taken_.begin() + (above - blocks_.begin()), block.taken);
  blocks_.insert(above, block);
}

void PlacedBlocks::retire(std::int64_t op) {
  std::erase_if(blocks_, [&](const Block& block) {
    const std::int64_t release = std::int64_t{block.taken.begin} + block.taken.length;
    return release <= op && release <= ops();
  });
  taken_.clear();
  for (const Block& block : blocks_) taken_.push_back(block.taken);
}

std::size_t PlacedBlocks::find_met(Stretch taken) {
  looks_ += taken_.size();
  met_.resize(taken_.size());
  // The same as `meet`. All that the loop needs is in registers: what it writes could be anything else.
  const std::uint32_t ops = this->ops();
  const auto count = static_cast<std::uint32_t>(taken_.size());
  const Stretch* const blocks = taken_.data();
  std::uint32_t* met = met_.data();
  for (std::uint32_t i = 0; i < count; ++i) {
    const Stretch block = blocks[i];
    const std::uint32_t apart = block.begin - taken.begin;
    const std::uint32_t after = apart + (block.begin < taken.begin ? ops : 0);
    *met = i;
    // Without a branch, which would be hard to predict.
    met += static_cast<std::uint32_t>(after < taken.length) | static_cast<std::uint32_t>(ops - after < block.length);
  }
  return static_cast<std::size_t>(met - met_.data());
}

std::uint64_t PlacedBlocks::find(const Interval& interval, Fit fit) {
  const std::size_t count = find_met(stretch(interval.begin, interval.release));
  std::uint64_t free_from = 0;
  std::uint64_t best = UINT64_MAX;
  std::uint64_t best_gap = UINT64_MAX;
  for (std::size_t i = 0; i < count; ++i) {
    const Block& block = blocks_[met_[i]];
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

/// By how much the transfers of two blocks overlap if `then` follows `first` in one range.
Nanoseconds PlacedBlocks::delay(const Block& first, const Block& then) const {
  const std::uint32_t released = (first.taken.begin + first.taken.length) % ops();
  const std::uint32_t between = distance(first.resident.begin, then.taken.begin);
  if (between >= distance(first.resident.begin, released) && first.taken.length < ops()) return Nanoseconds(0);
  const Nanoseconds wait = time_between(then.taken.begin, released);
  const bool in_queue = then.resident.begin != then.taken.begin;
  return in_queue ? wait / kHarmlessInQueue : wait;
}

std::uint64_t PlacedBlocks::find_over_transfers(const Interval& interval, std::uint64_t space) {
  const Block wanted = block_of(interval, 0);
  const std::uint64_t bytes = interval.bytes;
  overlaps_.clear();
  gaps_.clear();
  std::uint64_t free_from = 0;
  const std::size_t count = find_met(wanted.taken);
  for (std::size_t i = 0; i < count; ++i) {
    const Block& block = blocks_[met_[i]];
    if (meet(wanted.resident, block.resident)) {
      if (block.offset >= free_from + bytes) gaps_.push_back({free_from, block.offset});
      free_from = std::max(free_from, block.end);
      continue;
    }
    const std::uint64_t highest = overlaps_.empty() ? 0 : overlaps_.back().highest;
    overlaps_.push_back(
        {block.offset, block.end, std::max(highest, block.end), std::max(delay(block, wanted), delay(wanted, block))});
  }
  if (space >= free_from + bytes) gaps_.push_back({free_from, space});
  std::uint64_t best = space;
  Nanoseconds best_wait = Nanoseconds::max();
  const auto offer = [&](std::uint64_t offset) {
    const std::uint64_t end = offset + bytes;
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
  for (const Gap& gap : gaps_) {
    offer(gap.begin);
    offer(gap.end - bytes);
  }
  const auto offer_in_gap = [&](std::uint64_t offset) {
    const auto above = std::ranges::upper_bound(gaps_, offset, {}, &Gap::begin);
    if (above != gaps_.begin() && offset + bytes <= std::prev(above)->end) offer(offset);
  };
  for (const Overlap& other : overlaps_) {
    offer_in_gap(other.end);
    if (other.offset >= bytes) offer_in_gap(other.offset - bytes);
  }
  return best;
}

}  // namespace tensorpager::planning
