// Which blocks the plan's storages are.
#include <algorithm>
#include <utility>

#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using trace::index;

void PlanCursor::bind(StorageId storage, Block& block) {
  if (const auto known = storages_.find(&block); known != storages_.end()) blocks_[index(known->second)] = nullptr;
  if (Block* before = std::exchange(blocks_[index(storage)], &block)) storages_.erase(before);
  storages_[&block] = storage;
}

/// Binds storages without a block to touched blocks without a storage, if the sizes agree. Until now those blocks were
/// not at their planned places.
void PlanCursor::match_arguments(std::span<Block* const> touched) {
  for (const StorageId id : agenda_->arguments(position_)) {
    if (blocks_[index(id)] != nullptr) continue;
    const auto found = std::ranges::find_if(touched, [&](const Block* block) {
      return block->size == agenda_->storage_size(id) && !storages_.contains(block);
    });
    if (found == touched.end()) continue;
    bind(id, **found);
    note_disturbed();
  }
}

/// A model that was rebuilt, say: the op uses an unknown block of that size, and not the one that was bound to the
/// storage. That one is paged out: it is unplanned now.
void PlanCursor::replace_arguments(std::span<Block* const> touched, std::vector<Action>& actions) {
  const auto is_unknown = [&](const Block* block) { return !storages_.contains(block); };
  if (std::ranges::none_of(touched, is_unknown)) return;
  for (const StorageId id : agenda_->arguments(position_)) {
    Block* const before = blocks_[index(id)];
    if (before == nullptr || std::ranges::find(touched, before) != touched.end()) continue;
    const auto found = std::ranges::find_if(
        touched, [&](const Block* block) { return block->size == agenda_->storage_size(id) && is_unknown(block); });
    if (found == touched.end()) continue;
    bind(id, **found);
    replaced_.push_back(before);
    put_below(*before, actions);
    note_disturbed();
  }
}

/// Whether an op with the expected name and sizes is another nevertheless: the same layer further on, say.
bool PlanCursor::uses_others(std::span<Block* const> touched) const {
  const std::vector<StorageId>& arguments = agenda_->arguments(position_);
  return std::ranges::any_of(touched, [&](const Block* block) {
    const auto known = storages_.find(block);
    return known != storages_.end() && !std::ranges::binary_search(arguments, known->second);
  });
}

/// Binds the blocks that the op made. Returns whether they are as many as planned, and have their sizes.
bool PlanCursor::match_births(std::uint32_t op) {
  const auto expected = agenda_->births(op);
  bool as_expected = born_.size() == expected.size();
  if (as_expected) {
    for (std::size_t k = 0; k < expected.size(); ++k) {
      bind(expected[k].storage, *born_[k].block);
      as_expected &= born_[k].block->size == expected[k].size;
    }
    std::vector<std::uint32_t>& places = places_[op];
    places.clear();
    for (const Birth& one : born_) places.push_back(one.place);
  } else {
    std::size_t k = 0;
    for (const auto& [block, place] : born_) {
      std::size_t match = k;
      while (match < expected.size() && expected[match].size != block->size) ++match;
      if (match == expected.size()) continue;
      bind(expected[match].storage, *block);
      k = match + 1;
    }
  }
  return as_expected;
}

/// Storages that live on, though the trace has their death after the last op, continue those that the op is to have
/// written and that no longer exist, in the trace's order; or others that died instead. The plan may have paged them
/// out, as nothing uses them any more.
void PlanCursor::take_over(std::vector<Action>& actions) {
  const std::uint32_t last = (position_ == 0 ? agenda_->ops() : position_) - 1;
  for (const StorageId ending : agenda_->deaths(last)) {
    Block* block = blocks_[index(ending)];
    if (block == nullptr) continue;
    const auto continued = continued_by(ending, last);
    if (!continued) continue;
    bind(*continued, *block);
    if (const auto place = place_of(*block)) {
      const bool is_gone = block->is_absent() || block->is_leaving();
      actions.push_back({.kind = is_gone ? Action::Kind::kPageIn : Action::Kind::kMove,
                         .block = block,
                         .offset = *place,
                         .may_be_dirty = is_gone});
    }
    std::erase(lost_, *continued);
  }
  lost_.clear();
}

std::optional<StorageId> PlanCursor::continued_by(StorageId ending, std::uint32_t last) const {
  const auto has_its_size = [&](StorageId id) { return agenda_->storage_size(id) == agenda_->storage_size(ending); };
  const auto& written = agenda_->entries_written(last);
  const auto unknown =
      std::ranges::find_if(written, [&](StorageId id) { return blocks_[index(id)] == nullptr && has_its_size(id); });
  if (unknown != written.end()) return *unknown;
  const auto lost = std::ranges::find_if(lost_, has_its_size);
  return lost != lost_.end() ? std::optional(*lost) : std::nullopt;
}

/// Adopts what both plans know under one identity; the rest by size, in the order of their numbers: a batch, say, that
/// was made in another class's window.
void PlanCursor::adopt_entries(const PlanCursor& from) {
  for (const bool by_identity : {true, false})
    for (std::uint32_t i = 0; i < blocks_.size(); ++i)
      if (blocks_[i] == nullptr && agenda_->is_entry(StorageId{i})) adopt_entry(StorageId{i}, from, by_identity);
}

void PlanCursor::adopt_entry(StorageId id, const PlanCursor& from, bool by_identity) {
  const auto identity = agenda_->identity(id);
  if (by_identity && !identity) return;
  for (std::uint32_t i = 0; i < from.blocks_.size(); ++i) {
    const StorageId other{i};
    Block* const block = from.blocks_[i];
    const bool is_candidate = block != nullptr && from.agenda_->is_entry(other) &&
                              block->size == agenda_->storage_size(id) && !storages_.contains(block);
    if (is_candidate && (!by_identity || from.agenda_->identity(other) == identity)) return bind(id, *block);
  }
}

}  // namespace tensorpager::follow
