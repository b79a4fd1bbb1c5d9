#include "tensorpager/follow/storage_map.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

namespace tensorpager::follow {

using trace::index;

void StorageMap::bind(StorageId storage, Block& block) {
  if (const auto known = storages_.find(&block); known != storages_.end()) blocks_[index(known->second)] = nullptr;
  if (Block* before = std::exchange(blocks_[index(storage)], &block)) storages_.erase(before);
  storages_[&block] = storage;
  block.source_hint = index(storage);
}

void StorageMap::unbind(StorageId storage) {
  if (const Block* const block = std::exchange(blocks_[index(storage)], nullptr)) storages_.erase(block);
}

void StorageMap::died(const Block& block) noexcept {
  const auto known = storages_.find(&block);
  if (known == storages_.end()) return;
  blocks_[index(known->second)] = nullptr;
  if (agenda_.is_entry(known->second)) lost_.push_back(known->second);
  storages_.erase(known);
}

std::optional<StorageId> StorageMap::storage_of(const Block& block) const {
  if (block.source_hint < blocks_.size() && blocks_[block.source_hint] == &block) return StorageId{block.source_hint};
  const auto known = storages_.find(&block);
  if (known == storages_.end()) return std::nullopt;
  block.source_hint = index(known->second);
  return known->second;
}

void StorageMap::begin_op() {
  lost_.clear();
  replaced_.clear();
}

StorageMap::Arguments StorageMap::match_arguments(std::uint32_t op, std::span<Block* const> touched,
                                                  Replacing replacing) {
  std::vector<Block*> unknown;
  bool has_others = false;
  for (Block* block : touched) {
    if (const auto known = storage_of(*block))
      has_others |= !std::ranges::binary_search(agenda_.arguments(op), *known);
    else
      unknown.push_back(block);
  }
  // Among blocks of one size only their age tells which is which: a trace numbers what was there before by its first
  // use, and lists of parameters, or of an optimizer's states, are mostly used in the order in which they were made.
  std::ranges::sort(unknown, {}, &Block::number);
  bool is_rebound = !unknown.empty() && bind_missing(op, unknown);
  if (!unknown.empty() && replacing == Replacing::kYes) is_rebound |= replace(op, touched, unknown);
  if (is_rebound) return Arguments::kRebound;
  return has_others ? Arguments::kOthers : Arguments::kAsKnown;
}

bool StorageMap::bind_missing(std::uint32_t op, std::vector<Block*>& unknown) {
  bool is_rebound = false;
  for (const StorageId id : agenda_.arguments(op)) {
    if (block_of(id) != nullptr) continue;
    const auto found = std::ranges::find(unknown, agenda_.storage_size(id), &Block::size);
    if (found == unknown.end()) continue;
    bind(id, **found);
    unknown.erase(found);
    is_rebound = true;
  }
  return is_rebound;
}

bool StorageMap::replace(std::uint32_t op, std::span<Block* const> touched, std::vector<Block*>& unknown) {
  std::vector<Block*> sorted(touched.begin(), touched.end());
  std::ranges::sort(sorted);
  bool is_rebound = false;
  for (const StorageId id : agenda_.arguments(op)) {
    Block* const before = block_of(id);
    if (before == nullptr || std::ranges::binary_search(sorted, before)) continue;
    const auto found = std::ranges::find(unknown, agenda_.storage_size(id), &Block::size);
    if (found == unknown.end()) continue;
    bind(id, **found);
    unknown.erase(found);
    replaced_.push_back(before);
    is_rebound = true;
  }
  return is_rebound;
}

Block* StorageMap::take_over(StorageId ending, std::uint32_t last) {
  Block* const block = block_of(ending);
  if (block == nullptr) return nullptr;
  const auto continued = continued_by(ending, last);
  if (!continued) return nullptr;
  bind(*continued, *block);
  std::erase(lost_, *continued);
  return block;
}

std::optional<StorageId> StorageMap::continued_by(StorageId ending, std::uint32_t last) const {
  const auto has_its_size = [&](StorageId id) { return agenda_.storage_size(id) == agenda_.storage_size(ending); };
  const std::span<const StorageId> written = agenda_.entries_written(last);
  const auto unknown =
      std::ranges::find_if(written, [&](StorageId id) { return block_of(id) == nullptr && has_its_size(id); });
  if (unknown != written.end()) return *unknown;
  const auto lost = std::ranges::find_if(lost_, has_its_size);
  return lost != lost_.end() ? std::optional(*lost) : std::nullopt;
}

/// First those that both plans know under one identity; the rest by size, in the order of their numbers: a batch, say,
/// that was made in another class's window.
void StorageMap::adopt_entries(const StorageMap& from) {
  std::vector<StorageId> unknown;
  std::ranges::copy_if(agenda_.entries(), std::back_inserter(unknown),
                       [&](StorageId id) { return block_of(id) == nullptr; });
  if (unknown.empty()) return;
  const auto is_it = [&](const Block* block, StorageId id) {
    return block != nullptr && block->size == agenda_.storage_size(id) && !knows(*block);
  };
  for (const StorageId id : unknown) {
    const auto identity = agenda_.identity(id);
    if (!identity) continue;
    const auto others = from.agenda_.entries_of(*identity);
    const auto found = std::ranges::find_if(others, [&](StorageId other) { return is_it(from.block_of(other), id); });
    if (found != others.end()) bind(id, *from.block_of(*found));
  }
  std::map<base::Bytes, std::deque<Block*>> offered;  // by size
  for (const StorageId other : from.agenda_.entries())
    if (Block* block = from.block_of(other); block != nullptr && !knows(*block)) offered[block->size].push_back(block);
  for (const StorageId id : unknown) {
    if (block_of(id) != nullptr) continue;
    const auto of_size = offered.find(agenda_.storage_size(id));
    if (of_size == offered.end() || of_size->second.empty()) continue;
    bind(id, *of_size->second.front());
    of_size->second.pop_front();
  }
}

}  // namespace tensorpager::follow
