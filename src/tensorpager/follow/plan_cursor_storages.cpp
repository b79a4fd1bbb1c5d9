// Which blocks the plan's storages are.
#include <algorithm>
#include <utility>

#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

void PlanCursor::match_arguments(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  using Arguments = StorageMap::Arguments;
  const bool is_exact = op == agenda_->signature(position_);
  const Arguments arguments = storages_.match_arguments(
      position_, touched, is_exact ? StorageMap::Replacing::kYes : StorageMap::Replacing::kNo);
  for (Block* before : storages_.replaced()) put_below(*before, actions);
  if (arguments == Arguments::kRebound || (arguments == Arguments::kOthers && is_whole_)) note_disturbed();
}

/// What continues another storage moves to its place. The plan may have paged it out, as nothing uses it any more.
void PlanCursor::take_over(std::vector<Action>& actions) {
  const std::uint32_t last = (position_ == 0 ? agenda_->ops() : position_) - 1;
  for (const StorageId ending : agenda_->deaths(last)) {
    Block* const block = storages_.take_over(ending, last);
    if (block == nullptr) continue;
    if (const auto place = place_of(*block)) {
      const bool is_gone = block->is_absent() || block->is_leaving();
      actions.push_back({.kind = is_gone ? Action::Kind::kPageIn : Action::Kind::kMove,
                         .block = block,
                         .offset = *place,
                         .may_be_dirty = is_gone});
    }
  }
}

}  // namespace tensorpager::follow
