// Planned places of what the op under way makes, of its temporaries, and of resident blocks.
#include "tensorpager/follow/plan_cursor.h"

namespace tensorpager::follow {

std::optional<std::uint64_t> PlanCursor::place_of_birth(base::Bytes size, base::Bytes charged) {
  if (!in_op_) return std::nullopt;
  temporaries_.cancel_pending();
  const auto storage = births_.take_next(position_, size);
  if (!storage) return temporaries_.place(position_, charged, page_outs_);
  const Row* const row = agenda_->born_row(*storage, position_);
  return row != nullptr && row->bytes >= charged ? std::optional(row->offset) : std::nullopt;
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
