#include "tensorpager/follow/plan_cursor.h"

#include <algorithm>
#include <utility>

namespace tensorpager::follow {

PlanCursor::PlanCursor(std::shared_ptr<const follow::Agenda> agenda)
    : agenda_(std::move(agenda)),
      storages_(*agenda_),
      page_outs_(agenda_->ops()),
      births_(*agenda_),
      temporaries_(*agenda_),
      resync_(*agenda_) {}

void PlanCursor::begin_here() {
  page_outs_.forget_all();
  windows_ = followed_ = resized_ = misses_ = 0;
  is_elsewhere_ = true;
  is_whole_ = false;
}

bool PlanCursor::begin_op(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  take_over(actions);
  storages_.begin_op();
  resync_.note_op(op);
  births_.begin_op();
  temporaries_.begin_op();
  in_op_ = is_in_likely_ = is_silent_ = false;
  const OpSignature& expected = agenda_->signature(position_);
  const bool touches = op.sizes != 0;
  if (op.name != expected.name || (!touches && expected.sizes != 0)) {
    const auto further_on = resync_.find(op, position_);
    if (!further_on) {
      is_silent_ = !touches;
      if (touches)
        miss(op, touched);
      else
        resync_.note_silent(op);
      return false;
    }
    if (!resync_.has_missed()) ++misses_;  // the silent op was the plan's
    if (resync_.likely() && *resync_.likely() + 1 == *further_on) births_.bind_births(*resync_.likely(), storages_);
    skip_to(*further_on, actions);
  }
  if (position_ == 0) is_whole_ = true;
  if (op.sizes != agenda_->signature(position_).sizes) {
    births_.note_resized();
    is_whole_ = false;
  }
  resync_.note_found(op);
  births_.forget();
  match_arguments(op, touched, actions);
  is_provisional_ = !touches;
  in_op_ = true;
  if (is_elsewhere_ || (position_ == 0 && is_disturbed_))
    begin_elsewhere(actions);
  else if (position_ == 0)
    bring_about(actions, false);
  begin_rows(actions);
  return true;
}

void PlanCursor::miss(const OpSignature& op, std::span<Block* const> touched) {
  ++misses_;
  note_disturbed();
  births_.forget();
  resync_.note_miss(op, touched, position_, storages_);
  is_in_likely_ = resync_.likely().has_value();
}

void PlanCursor::skip_to(std::uint32_t op, std::vector<Action>& actions) {
  note_disturbed();
  while (position_ != op) {
    begin_rows(actions, op);
    end_rows(actions);
  }
}

void PlanCursor::begin_rows(std::vector<Action>& actions, std::optional<std::uint32_t> skipping_to) {
  for (const std::uint32_t i : agenda_->beginning(position_)) {
    const Row& row = agenda_->row(i);
    const bool pages_in = row.fill == Fill::kPageIn;
    // Once compute has waited for the page-in it knows that what the queue waited for is done.
    if (row.wait != 0 && pages_in) page_outs_.await_queued(row.wait, actions);
    if (row.wait != 0 && !pages_in) page_outs_.await(row.wait, actions);
    if (!pages_in) continue;
    const bool is_over = skipping_to && row.begin < *skipping_to && row.end <= *skipping_to;
    Block* block = storages_.block_of(row.storage);
    const bool may_be_dirty = row.leave == Leave::kPageOut || row.leave == Leave::kDies;
    if (block == nullptr || is_over) continue;
    actions.push_back(
        {.kind = Action::Kind::kPageIn, .block = block, .offset = row.offset, .may_be_dirty = may_be_dirty});
    page_outs_.note_page_in(row.need);
  }
}

bool PlanCursor::moves_at_end() const {
  const auto moves = [&](std::uint32_t i) {
    return agenda_->row(i).leave == Leave::kPageOut || agenda_->row(i).leave == Leave::kDrop;
  };
  return position_ + 1 == agenda_->ops() || std::ranges::any_of(agenda_->leaving(position_ + 1), moves);
}

void PlanCursor::end_op(std::vector<Action>& actions) {
  const bool is_plans = !is_another();
  in_op_ = false;
  followed_window_ = 0;
  if (!is_plans) return;
  resync_.note_followed();
  ++followed_;
  const bool are_births_as_expected = births_.bind_births(position_, storages_);
  if (!are_births_as_expected) note_disturbed();
  if (births_.is_resized() || !are_births_as_expected) ++resized_;
  births_.forget();
  page_outs_.note_needed(position_);
  end_rows(actions);
}

void PlanCursor::enter(std::uint32_t op, const PlanCursor& from) {
  position_ = op;
  is_whole_ = from.is_whole_;
  for (std::uint32_t at = 0; at < op; ++at) {
    const auto births = agenda_->births(at), others = from.agenda_->births(at);
    for (std::size_t k = 0; k < std::min(births.size(), others.size()); ++k)
      if (Block* block = from.block_of(others[k].storage)) bind(births[k].storage, *block);
  }
  if (&from != this) storages_.adopt_entries(from.storages_);
}

void PlanCursor::leave(std::vector<Action>& actions) {
  position_ = 0;
  in_op_ = false;
  is_whole_ = false;
  is_elsewhere_ = true;
  page_outs_.await_all_queued(actions);
  storages_.begin_op();
  is_in_likely_ = is_silent_ = false;
  births_.forget();
  resync_.reset();
}

void PlanCursor::end_rows(std::vector<Action>& actions) {
  ++position_;
  for (const std::uint32_t i : agenda_->leaving(position_)) {
    const Row& row = agenda_->row(i);
    if (row.leave != Leave::kPageOut && row.leave != Leave::kDrop) continue;
    Block* block = storages_.block_of(row.storage);
    const bool is_awaited = row.leave == Leave::kPageOut;
    if (block != nullptr && block->is_exported()) note_disturbed();  // it stays
    if (block != nullptr) actions.push_back({is_awaited ? Action::Kind::kPageOut : Action::Kind::kDrop, block});
    if (is_awaited) page_outs_.add({i, agenda_->ticket(i), windows_, block, block != nullptr ? block->number : 0});
  }
  if (position_ < agenda_->ops()) return;
  for (const std::uint32_t i : agenda_->arriving_at_end())
    if (Block* block = storages_.block_of(agenda_->row(i).storage)) actions.push_back({Action::Kind::kNeed, block});
  page_outs_.note_needed(agenda_->ops());
  position_ = 0;
  ++windows_;
  if (is_whole_) followed_window_ = agenda_->ops();
  page_outs_.begin_window(windows_, ops_so_far(), actions);
}

void PlanCursor::created(Block& block) {
  if (in_op_ || is_in_likely_)
    births_.created(block);
  else
    births_.pass_by();
  temporaries_.created(block);
  if (std::exchange(is_silent_, false)) miss(resync_.silent(), {});
}

void PlanCursor::died(Block& block) noexcept {
  births_.died(block);
  temporaries_.died(block);
  storages_.died(block);
}

std::optional<std::uint64_t> PlanCursor::next_use(const Block& block) const {
  const auto storage = storages_.storage_of(block);
  if (!storage) return std::nullopt;
  // If no op is under way, the expected one may be the next use.
  const std::uint32_t last = in_op_ ? position_ : (position_ == 0 ? agenda_->ops() : position_) - 1;
  return agenda_->next_use(*storage, last);
}

}  // namespace tensorpager::follow
