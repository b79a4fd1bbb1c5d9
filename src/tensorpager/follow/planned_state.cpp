#include "tensorpager/follow/planned_state.h"

#include <algorithm>
#include <utility>

namespace tensorpager::follow {

Action page_in_of(Block& block, const Row& row) {
  const bool may_be_dirty = row.leave == Leave::kPageOut || row.leave == Leave::kDies;
  return {.kind = Action::Kind::kPageIn, .block = &block, .offset = row.offset, .may_be_dirty = may_be_dirty};
}

bool reach_planned_state(const Agenda& agenda, const StorageMap& storages, std::uint32_t op, Places places,
                         std::vector<Action>& actions) {
  const bool may_be_anywhere = places == Places::kAny;
  bool all_leave = true;
  std::vector<std::pair<Block*, const Row*>> to_come;
  for (std::uint32_t i = 0; i < agenda.storages(); ++i) {
    Block* const block = storages.block_of(StorageId{i});
    if (block == nullptr) continue;
    const Row* const row = agenda.row_at(StorageId{i}, op);
    const bool is_there = block->is_charged() && !block->is_leaving();
    if (row == nullptr && (may_be_anywhere || is_there)) {
      all_leave &= !block->is_exported();
      page_out_for_good(*block, actions);
    } else if (row != nullptr && (row->begin < op || row->fill == Fill::kBoundary) && (may_be_anywhere || !is_there)) {
      to_come.emplace_back(block, row);
    }
  }
  const std::uint32_t before = (op == 0 ? agenda.ops() : op) - 1;
  const auto distance = [&](const auto& one) {
    return agenda.next_use(one.second->storage, before).value_or(agenda.ops() + 1);
  };
  std::ranges::stable_sort(to_come, {}, distance);
  if (may_be_anywhere) {
    for (const Action::Kind kind : {Action::Kind::kMove, Action::Kind::kClearAndMove})
      for (const auto& [block, row] : to_come)
        if (row->bytes >= block->charged) actions.push_back({.kind = kind, .block = block, .offset = row->offset});
  }
  for (const auto& [block, row] : to_come) actions.push_back(page_in_of(*block, *row));
  return all_leave;
}

}  // namespace tensorpager::follow
