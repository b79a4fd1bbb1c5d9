#include "tensorpager/follow/birth_matcher.h"

#include <algorithm>
#include <utility>

namespace tensorpager::follow {

void BirthMatcher::expect(std::uint32_t op, std::vector<std::uint32_t> places) {
  if (places.size() == agenda_.births(op).size()) places_[op] = std::move(places);
}

void BirthMatcher::begin_op() {
  made_ = 0;
  order_ = Order::kAsInLastWindow;
  taken_.clear();
}

void BirthMatcher::died(const Block& block) noexcept {
  std::erase_if(born_, [&](const Birth& one) { return one.block == &block; });
}

void BirthMatcher::taken_over(Block& block, const Block& fresh) {
  const auto found = std::ranges::find(born_, &fresh, &Birth::block);
  if (found != born_.end()) found->block = &block;
}

std::optional<StorageId> BirthMatcher::take_next(std::uint32_t op, base::Bytes size) {
  const auto births = agenda_.births(op);
  const std::vector<std::uint32_t>& places = places_[op];
  const auto take = [&](const Agenda::Birth& birth) { return taken_.emplace_back(birth.storage); };
  const auto has_size = [&](const Agenda::Birth& birth) { return birth.size == size || is_resized(); };
  if (!places.empty() && order_ != Order::kOther) {
    const auto found = std::ranges::find(places, made_);
    if (found == places.end()) return std::nullopt;
    const Agenda::Birth& birth = births[static_cast<std::size_t>(found - places.begin())];
    if (has_size(birth)) return take(birth);
    order_ = Order::kOther;
  }
  for (const Agenda::Birth& birth : births)
    if (has_size(birth) && std::ranges::find(taken_, birth.storage) == taken_.end()) return take(birth);
  return std::nullopt;
}

bool BirthMatcher::bind_births(std::uint32_t op, StorageMap& storages) {
  const auto expected = agenda_.births(op);
  if (born_.size() != expected.size()) {
    auto next = expected.begin();
    for (const Birth& one : born_) {
      const auto match =
          std::find_if(next, expected.end(), [&](const Agenda::Birth& birth) { return birth.size == one.block->size; });
      if (match == expected.end()) continue;
      storages.bind(match->storage, *one.block);
      next = match + 1;
    }
    return false;
  }
  bool have_sizes = true;
  std::vector<std::uint32_t>& places = places_[op];
  places.clear();
  for (std::size_t k = 0; k < expected.size(); ++k) {
    storages.bind(expected[k].storage, *born_[k].block);
    have_sizes &= born_[k].block->size == expected[k].size;
    places.push_back(born_[k].place);
  }
  return have_sizes;
}

}  // namespace tensorpager::follow
