// What is resident, and where, when the plan goes on from other than its op before: after ops of another plan, or none.
#include <algorithm>
#include <utility>

#include "tensorpager/pager/plan_cursor.h"

namespace tensorpager::pager {

using base::Bytes;
using plan::Agenda;
using plan::Fill;
using plan::Leave;
using plan::Row;
using plan::StorageId;

/// Nothing that the plan has under way here was submitted, or it was for another part of it.
void PlanCursor::begin_elsewhere(std::vector<Action>& actions) {
  is_elsewhere_ = is_disturbed_ = false;
  await_all_queued(actions);
  not_under_way_.clear();
  for (const Agenda::PageOut& one : agenda_->under_way(position_))
    not_under_way_.push_back({one.bytes, ops_so_far() - position_ + one.until});
  bring_about(actions, true);
}

/// What the plan has below leaves: on demand more may have stayed, and what no window uses may have been used between
/// two, an optimizer's state, say, that is saved. What it has resident comes, in the order of its next uses; what is
/// to be paged in from this op on comes with its row. `elsewhere`: blocks may also be where the plan has others; as
/// many as can go to their own places without another leaving, which would come back, do.
void PlanCursor::bring_about(std::vector<Action>& actions, bool elsewhere) {
  std::vector<std::pair<Block*, const Row*>> to_come;
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    Block* const block = blocks_[i];
    if (block == nullptr) continue;
    const Row* const row = row_now(StorageId{i});
    if (row == nullptr && (elsewhere || (block->is_charged() && !block->leaving)))
      put_below(*block, actions);
    else if (row != nullptr && (row->begin < position_ || row->fill == Fill::kBoundary) &&
             (elsewhere || !block->is_charged() || block->leaving))
      to_come.emplace_back(block, row);
  }
  const std::uint32_t before = (position_ == 0 ? agenda_->ops() : position_) - 1;
  const auto distance = [&](const auto& one) {
    return agenda_->next_use(one.second->storage, before).value_or(agenda_->ops() + 1);
  };
  std::ranges::stable_sort(to_come, {}, distance);
  if (elsewhere) {
    for (const Action::Kind kind : {Action::Kind::kMove, Action::Kind::kClearAndMove})
      for (const auto& [block, row] : to_come)
        if (row->bytes >= block->charged) actions.push_back({.kind = kind, .block = block, .offset = row->offset});
  }
  for (const auto& [block, row] : to_come) {
    const bool may_be_dirty = row->leave == Leave::kPageOut || row->leave == Leave::kDies;
    actions.push_back(
        {.kind = Action::Kind::kPageIn, .block = block, .offset = row->offset, .may_be_dirty = may_be_dirty});
  }
}

/// The row that the storage is in; null where it is below, or not there.
const Row* PlanCursor::row_now(StorageId storage) const {
  for (const std::uint32_t i : agenda_->rows_of(storage)) {
    const Row& row = agenda_->row(i);
    if (row.begin <= position_ && position_ < row.end) return &row;
  }
  return nullptr;
}

/// It is nowhere in the plan now, and whoever wanted it here before no longer does.
void PlanCursor::put_below(Block& block, std::vector<Action>& actions) {
  if (block.is_exported()) note_disturbed();  // it stays
  page_out_for_good(block, actions);
}

void PlanCursor::await_all_queued(std::vector<Action>& actions) {
  const std::uint64_t count = forgotten_ + page_outs_.size();
  queue_until(count, actions);
  forget_until(count);
}

std::optional<Bytes> PlanCursor::less_not_under_way(std::optional<Bytes> planned) const {
  if (!planned) return planned;
  Bytes bytes = *planned;
  for (const NotUnderWay& one : not_under_way_)
    if (ops_so_far() < one.until) bytes -= one.bytes;
  return bytes;
}

}  // namespace tensorpager::pager
