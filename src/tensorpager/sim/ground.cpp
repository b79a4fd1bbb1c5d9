#include "tensorpager/sim/ground.h"

#include <algorithm>

#include "tensorpager/base/errors.h"

namespace tensorpager::sim {

std::vector<Owner> Ground::owners(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Owner> found;
  auto block = blocks_.lower_bound(begin);
  if (block != blocks_.begin() && std::prev(block)->second.end > begin) --block;
  for (; block != blocks_.end() && block->first < end; ++block) found.push_back(block->second.owner);
  return found;
}

void Ground::forget_done(Nanoseconds now) {
  std::erase_if(busy_, [&](const Busy& busy) { return busy.until <= now; });
}

std::vector<Ground::Gap> Ground::gaps(bool idle, Nanoseconds now) {
  forget_done(now);
  std::vector<Gap> taken;
  taken.reserve(blocks_.size());
  for (const auto& [begin, block] : blocks_) taken.push_back({begin, block.end});
  if (idle) {
    for (const Busy& busy : busy_) taken.push_back({busy.begin, busy.end});
    std::ranges::sort(taken, {}, &Gap::begin);
  }
  std::vector<Gap> found;
  std::uint64_t free_from = 0;
  for (const Gap& range : taken) {
    if (range.begin > free_from) found.push_back({free_from, range.begin});
    free_from = std::max(free_from, range.end);
  }
  if (size_ > free_from) found.push_back({free_from, size_});
  return found;
}

Nanoseconds Ground::take(std::uint64_t begin, std::uint64_t bytes, Owner owner) {
  const std::uint64_t end = begin + bytes;
  TENSORPAGER_CHECK(end <= size_ && owners(begin, end).empty());
  Nanoseconds free_from{0};
  std::vector<Busy> rest;
  for (const Busy& busy : busy_) {
    if (busy.end <= begin || busy.begin >= end) {
      rest.push_back(busy);
      continue;
    }
    free_from = std::max(free_from, busy.until);
    if (busy.begin < begin) rest.push_back({busy.begin, begin, busy.until});
    if (busy.end > end) rest.push_back({end, busy.end, busy.until});
  }
  busy_ = std::move(rest);
  blocks_.emplace(begin, Block{end, owner});
  return free_from;
}

void Ground::give_back(std::uint64_t begin, Nanoseconds busy_until) {
  const auto block = blocks_.find(begin);
  TENSORPAGER_CHECK(block != blocks_.end());
  busy_.push_back({begin, block->second.end, busy_until});
  blocks_.erase(block);
}

std::uint64_t Ground::charged(Nanoseconds now) {
  forget_done(now);
  std::uint64_t sum = 0;
  for (const auto& [begin, block] : blocks_) sum += block.end - begin;
  // What is read twice, by a page-out of a part that was taken and given back, counts once.
  std::ranges::sort(busy_, {}, &Busy::begin);
  std::uint64_t counted = 0;
  for (const Busy& busy : busy_) {
    const std::uint64_t begin = std::max(counted, busy.begin);
    if (busy.end > begin) sum += busy.end - begin;
    counted = std::max(counted, busy.end);
  }
  return sum;
}

}  // namespace tensorpager::sim
