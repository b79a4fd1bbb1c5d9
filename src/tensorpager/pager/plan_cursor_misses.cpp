// Ops that are not the expected ones, and how the plan's are found again.
#include <algorithm>

#include "tensorpager/pager/plan_cursor.h"

namespace tensorpager::pager {

using plan::OpSignature;
using plan::StorageId;
using trace::index;

namespace {

/// Ops that may be left out at one time; a program that leaves out more is found again at the window's begin.
constexpr std::uint32_t kFurthest = 64;

}  // namespace

void PlanCursor::miss(const OpSignature& op, std::span<Block* const> touched) {
  ++misses_;
  missed_ = op;
  forget_likely();
  likely_ = find_by_arguments(op, touched);
  is_in_likely_ = likely_.has_value();
}

void PlanCursor::forget_likely() {
  likely_.reset();
  is_in_likely_ = false;
  born_.clear();
}

/// Where this op comes after one that was not expected: within the next few ops, or at the window's begin.
std::optional<std::uint32_t> PlanCursor::find_further_on(const OpSignature& op,
                                                         const std::optional<OpSignature>& silent) const {
  if (!missed_ && !silent) return std::nullopt;
  const auto comes_at = [&](std::uint32_t at) {
    const OpSignature& before = agenda_->signature(at - 1);
    return agenda_->signature(at) == op && (before == missed_ || before == silent);
  };
  const std::uint32_t end = std::min(agenda_->ops(), position_ + kFurthest);
  for (std::uint32_t at = position_ + 1; at < end; ++at)
    if (comes_at(at)) return at;
  if (agenda_->ops() > 1 && comes_at(1)) return 1;
  if (likely_ && *likely_ + 1 < agenda_->ops() && agenda_->signature(*likely_ + 1) == op) return *likely_ + 1;
  return std::nullopt;
}

/// Where an op of this name comes soon that uses nothing of the plan's but what this one touches.
std::optional<std::uint32_t> PlanCursor::find_by_arguments(const OpSignature& op,
                                                           std::span<Block* const> touched) const {
  const auto is_known = [&](StorageId id) { return blocks_[index(id)] != nullptr; };
  const auto may_be_touched = [&](StorageId id) {
    return !is_known(id) || std::ranges::find(touched, blocks_[index(id)]) != touched.end();
  };
  const std::uint32_t end = std::min(agenda_->ops(), position_ + kFurthest);
  for (std::uint32_t at = position_ + 1; at < end; ++at) {
    if (agenda_->signature(at).name != op.name) continue;
    const std::vector<StorageId>& arguments = agenda_->arguments(at);
    if (std::ranges::any_of(arguments, is_known) && std::ranges::all_of(arguments, may_be_touched)) return at;
  }
  return std::nullopt;
}

void PlanCursor::skip_to(std::uint32_t op, std::vector<Action>& actions) {
  while (position_ != op) {
    begin_rows(actions, op);
    end_rows(actions);
  }
}

}  // namespace tensorpager::pager
