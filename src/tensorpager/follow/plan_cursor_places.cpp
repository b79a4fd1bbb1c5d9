// Planned places of what the op under way makes, of its temporaries, and of resident blocks.
#include <algorithm>
#include <utility>

#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

void PlanCursor::expect_made(std::uint32_t op, std::vector<std::uint32_t> places) {
  if (places.size() == agenda_->births(op).size()) places_[op] = std::move(places);
}

std::optional<std::uint64_t> PlanCursor::place_of_birth(base::Bytes size, base::Bytes charged) {
  if (!in_op_) return std::nullopt;
  std::erase_if(temporaries_, [](const Temporary& one) { return one.block == nullptr; });  // was not made after all
  const auto storage = next_birth(size);
  if (!storage) return place_of_temporary(charged);
  placed_.push_back(*storage);
  const Row* const row = born_row(*storage);
  return row != nullptr && row->bytes >= charged ? std::optional(row->offset) : std::nullopt;
}

/// Returns what the op makes next, as in the last window; else, or if it has made something else this time, the first
/// birth of this size that has no block yet, or of any size if the op is resized. Returns nullopt for a temporary of
/// the op.
std::optional<StorageId> PlanCursor::next_birth(base::Bytes size) {
  const auto births = agenda_->births(position_);
  const std::vector<std::uint32_t>& places = places_[position_];
  if (!places.empty() && !makes_otherwise_) {
    const auto found = std::ranges::find(places, made_);
    if (found == places.end()) return std::nullopt;
    const Agenda::Birth& birth = births[static_cast<std::size_t>(found - places.begin())];
    if (birth.size == size || is_resized_) return birth.storage;
    makes_otherwise_ = true;
  }
  for (const follow::Agenda::Birth& birth : births)
    if ((birth.size == size || is_resized_) && std::ranges::find(placed_, birth.storage) == placed_.end())
      return birth.storage;
  return std::nullopt;
}

/// In the temporaries' row; if several leave no gap of this size there, between what else is to be resident.
std::optional<std::uint64_t> PlanCursor::place_of_temporary(base::Bytes charged) {
  auto begin = gap_in_row(charged);
  if (!begin) begin = gap_between_rows(charged);
  if (!begin) return std::nullopt;
  const auto next = std::ranges::upper_bound(temporaries_, *begin, {}, &Temporary::begin);
  temporaries_.insert(next, {nullptr, *begin, *begin + charged.count()});
  return begin;
}

std::optional<std::uint64_t> PlanCursor::gap_in_row(base::Bytes charged) const {
  const Row* const row = born_row(plan::kTemporary);
  if (row == nullptr) return std::nullopt;
  std::uint64_t begin = row->offset;
  for (const Temporary& one : temporaries_) {
    if (one.end <= begin) continue;
    if (begin + charged.count() <= one.begin) break;
    begin = one.end;
  }
  return begin + charged.count() <= row->offset + row->bytes.count() ? std::optional(begin) : std::nullopt;
}

std::optional<std::uint64_t> PlanCursor::gap_between_rows(base::Bytes charged) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  const auto take = [&](const Row& row) { taken.emplace_back(row.offset, row.offset + row.bytes.count()); };
  for (const Row& row : agenda_->plan().rows)
    if (row.begin <= position_ && position_ < row.end) take(row);
  for (const PageOutQueue::PageOut& page_out : page_outs_.in_flight()) take(agenda_->row(page_out.row));
  for (const Temporary& one : temporaries_) taken.emplace_back(one.begin, one.end);
  std::ranges::sort(taken);
  std::uint64_t begin = 0;
  for (const auto& [from, to] : taken) {
    if (begin + charged.count() <= from) break;
    begin = std::max(begin, to);
  }
  return begin + charged.count() <= planned_space().count() ? std::optional(begin) : std::nullopt;
}

const Row* PlanCursor::born_row(StorageId storage) const {
  for (const std::uint32_t i : agenda_->beginning(position_)) {
    const Row& row = agenda_->row(i);
    if (row.fill == Fill::kBorn && row.storage == storage) return &row;
  }
  return nullptr;
}

void PlanCursor::places_of_births(std::vector<PlannedPlace>& places) const {
  if (!in_op_) return;
  for (const std::uint32_t i : agenda_->beginning(position_))
    if (const Row& row = agenda_->row(i); row.fill == Fill::kBorn) places.push_back({row.offset, row.bytes});
}

std::optional<std::uint64_t> PlanCursor::place_of(const Block& block) const {
  const auto storage = storages_.storage_of(block);
  const Row* const row = storage ? agenda_->row_at(*storage, position_) : nullptr;
  return row != nullptr && row->bytes >= block.charged ? std::optional(row->offset) : std::nullopt;
}

}  // namespace tensorpager::follow
