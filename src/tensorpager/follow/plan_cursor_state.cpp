// Brings residency to the plan's state when the plan continues from another op than its op before: after ops of another
// plan, or of none.
#include <algorithm>
#include <utility>

#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

using base::Bytes;

/// The page-outs that the plan has in flight here were not submitted, or were those of another part of it.
void PlanCursor::begin_elsewhere(std::vector<Action>& actions) {
  is_elsewhere_ = is_disturbed_ = false;
  page_outs_.await_all_queued(actions);
  std::vector<PageOutQueue::NotSubmitted> not_submitted;
  for (const Agenda::PageOut& one : agenda_->under_way(position_))
    not_submitted.push_back({one.bytes, ops_so_far() - position_ + one.until});
  page_outs_.set_not_submitted(std::move(not_submitted));
  bring_about(actions, true);
}

/// Blocks that the plan has paged out leave: on demand more may have stayed, and what no window uses may have been used
/// between two, an optimizer's state, say, that is saved. Blocks that it has resident come, in the order of their next
/// uses; those to be paged in from this op on come with their rows. `elsewhere`: blocks may also be at the places of
/// others; as many as can go to their own places without evicting another, which would come back, do.
void PlanCursor::bring_about(std::vector<Action>& actions, bool elsewhere) {
  std::vector<std::pair<Block*, const Row*>> to_come;
  for (std::uint32_t i = 0; i < agenda_->storages(); ++i) {
    Block* const block = storages_.block_of(StorageId{i});
    if (block == nullptr) continue;
    const Row* const row = agenda_->row_at(StorageId{i}, position_);
    if (row == nullptr && (elsewhere || (block->is_charged() && !block->is_leaving())))
      put_below(*block, actions);
    else if (row != nullptr && (row->begin < position_ || row->fill == Fill::kBoundary) &&
             (elsewhere || !block->is_charged() || block->is_leaving()))
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

/// Pages out a block that the plan has nowhere now; no earlier request for it holds any more.
void PlanCursor::put_below(Block& block, std::vector<Action>& actions) {
  if (block.is_exported()) note_disturbed();  // it stays
  page_out_for_good(block, actions);
}

std::optional<Bytes> PlanCursor::less_not_submitted(std::optional<Bytes> planned) const {
  if (!planned) return planned;
  return *planned - page_outs_.not_submitted(ops_so_far());
}

}  // namespace tensorpager::follow
