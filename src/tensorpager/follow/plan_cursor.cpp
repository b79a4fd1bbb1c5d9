#include "tensorpager/follow/plan_cursor.h"

#include <algorithm>

#include "tensorpager/follow/planned_state.h"

namespace tensorpager::follow {

PlanCursor::PlanCursor(std::shared_ptr<const Agenda> agenda)
    : agenda_(std::move(agenda)),
      storages_(*agenda_),
      births_(*agenda_),
      temporaries_(*agenda_),
      page_outs_(agenda_->ops()),
      resync_(*agenda_) {}

void PlanCursor::begin_here() {
  page_outs_.forget_all();
  renewed_leaving_.clear();
  counts_ = {};
  standing_ = Standing::kElsewhere;
}

bool PlanCursor::begin_op(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  take_over(actions);
  page_out_renewed(actions);
  storages_.begin_op();
  births_.begin_op();
  temporaries_.begin_op();
  resync_.note_op(op);
  if (!agenda_->is_like(op, position_)) {
    const auto further_on = resync_.find(op, position_);
    if (!further_on) {
      if (op.sizes != 0) {
        miss(op, touched);
      } else {
        resync_.note_silent(op);
        op_ = Op::kSilent;
      }
      return false;
    }
    if (!resync_.has_missed()) ++counts_.misses;  // the silent op was the plan's
    if (resync_.likely() && *resync_.likely() + 1 == *further_on) births_.bind_births(*resync_.likely(), storages_);
    skip_to(*further_on, actions);
  }
  follow(op, touched, actions);
  return true;
}

void PlanCursor::follow(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  op_ = op.sizes != 0 ? Op::kPlanned : Op::kProvisional;
  resync_.note_found(op);
  births_.forget();
  if (position_ == 0) standing_ = window_begins(standing_);
  if (op.sizes != agenda_->signature(position_).sizes) {
    births_.note_resized();
    standing_ = resized(standing_);
  }
  match_arguments(op, touched, actions);
  reach_state(actions);
  begin_rows(actions);
}

void PlanCursor::miss(const OpSignature& op, std::span<Block* const> touched) {
  ++counts_.misses;
  note_disturbed();
  births_.forget();
  resync_.note_miss(op, touched, position_, storages_);
  op_ = resync_.likely() ? Op::kLikely : Op::kMissed;
}

/// Whether the op under way, which was taken for the plan's, is another: it made nothing though the plan's op does.
bool PlanCursor::is_another() const {
  return op_ == Op::kProvisional && births_.made() == 0 && agenda_->makes_something(position_);
}

/// What continues another storage moves to its place. The plan may have paged it out, as nothing uses it any more.
void PlanCursor::take_over(std::vector<Action>& actions) {
  for (const StorageId ending : agenda_->deaths(op_before())) {
    Block* const block = storages_.take_over(ending, op_before());
    const auto place = block != nullptr ? place_of(*block) : std::nullopt;
    if (!place) continue;
    const bool is_gone = block->is_absent() || block->is_leaving();
    actions.push_back({.kind = is_gone ? Action::Kind::kPageIn : Action::Kind::kMove,
                       .block = block,
                       .offset = *place,
                       .may_be_dirty = is_gone});
  }
}

/// Blocks that came for others were not at their planned places until now; those others are unplanned, and leave.
void PlanCursor::match_arguments(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) {
  using Arguments = StorageMap::Arguments;
  using Replacing = StorageMap::Replacing;
  const Replacing replacing = expects(op) ? Replacing::kYes : Replacing::kNo;
  const Arguments arguments = storages_.match_arguments(position_, touched, replacing);
  for (Block* before : storages_.replaced()) page_out_for_good(*before, actions);
  if (arguments == Arguments::kRebound || (arguments == Arguments::kOthers && is_whole(standing_))) note_disturbed();
}

/// The page-outs that the plan has in flight where it continues from elsewhere were not submitted, or were those of
/// another part of it.
void PlanCursor::reach_state(std::vector<Action>& actions) {
  Places places = Places::kPlanned;
  if (is_elsewhere(standing_) || (position_ == 0 && standing_ == Standing::kDisturbed)) {
    places = Places::kAny;
    standing_ = put_right(standing_);
    page_outs_.await_all_queued(actions);
    std::vector<PageOutQueue::NotSubmitted> not_submitted;
    for (const PlannedPageOuts::UnderWay& one : agenda_->page_outs().under_way(position_))
      not_submitted.push_back({one.bytes, ops_so_far() - position_ + one.until});
    page_outs_.set_not_submitted(std::move(not_submitted));
  } else if (position_ != 0) {
    return;
  }
  if (!reach_planned_state(*agenda_, storages_, position_, places, actions)) note_disturbed();
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
    if (row.wait != 0 && pages_in) page_outs_.await_queued(row.wait, actions);
    if (row.wait != 0 && !pages_in) page_outs_.await(row.wait, actions);
    const bool is_over = skipping_to && row.begin < *skipping_to && row.end <= *skipping_to;
    if (!pages_in || is_over) continue;
    Block* const block = storages_.block_of(row.storage);
    if (block == nullptr) continue;
    actions.push_back(page_in_of(*block, row));
    page_outs_.note_page_in(row.need);
  }
}

void PlanCursor::end_op(std::vector<Action>& actions) {
  const bool is_plans = !is_another();
  op_ = Op::kNone;
  followed_window_ = 0;
  if (!is_plans) return;
  resync_.note_followed();
  ++counts_.followed;
  const bool are_births_as_expected = births_.bind_births(position_, storages_);
  if (!are_births_as_expected) note_disturbed();
  if (births_.is_resized() || !are_births_as_expected) ++counts_.resized;
  if (agenda_->replays().is_replayed_later(position_)) note_made();
  births_.forget();
  page_outs_.note_needed(position_);
  end_rows(actions);
}

/// For replays of the op that has ended.
void PlanCursor::note_made() {
  std::vector<std::uint64_t>& numbers = made_[position_];
  numbers.clear();
  for (const StorageId made : agenda_->made_anew(position_)) {
    const Block* const block = storages_.block_of(made);
    numbers.push_back(block != nullptr ? block->number : 0);
  }
}

std::optional<DueReplay> PlanCursor::due_replay(const OpSignature& next) const {
  const PlannedReplays& replays = agenda_->replays();
  if ((op_ != Op::kNone && op_ != Op::kSilent) || !replays.is_replay(position_)) return std::nullopt;
  if (next.sizes == 0 && !agenda_->is_like(next, replays.behind(position_))) return std::nullopt;
  const std::uint32_t replayed = replays.replayed_by(position_);
  DueReplay due{.signature = agenda_->signature(position_),
                .is_first = replays.is_first(position_),
                .of = replayed + std::uint64_t{1}};
  if (const auto made = made_.find(replayed); made != made_.end())
    for (const std::uint32_t place : replays.kept_by(position_, agenda_->made_anew(replayed)))
      due.keeps.push_back(made->second[place]);
  for (const StorageId id : agenda_->drops(position_))
    if (const Block* const block = storages_.block_of(id)) due.frees.push_back(block);
  return due;
}

void PlanCursor::taken_over(Block& block, Block& fresh) {
  births_.taken_over(block, fresh);
  temporaries_.died(fresh);
  if (const auto storage = storages_.storage_of(fresh)) storages_.bind(*storage, block);
}

void PlanCursor::end_rows(std::vector<Action>& actions) {
  page_out_renewed(actions);
  for (const StorageId id : agenda_->drops(position_))
    if (Block* const block = storages_.block_of(id)) {
      storages_.unbind(id);
      actions.push_back({Action::Kind::kForget, block});
    }
  const auto leaving = agenda_->leaving(position_ + 1);
  const auto is_renewed = [&](std::uint32_t i) { return agenda_->is_renewed(agenda_->row(i).storage, position_); };
  if (std::ranges::any_of(leaving, is_renewed))
    renewed_leaving_.assign(leaving.begin(), leaving.end());
  else
    for (const std::uint32_t i : leaving) end_row(i, actions);
  ++position_;
  if (position_ == agenda_->ops()) end_window(actions);
}

void PlanCursor::end_row(std::uint32_t i, std::vector<Action>& actions) {
  const Row& row = agenda_->row(i);
  if (row.leave != Leave::kPageOut && row.leave != Leave::kDrop) return;
  Block* const block = storages_.block_of(row.storage);
  const bool is_awaited = row.leave == Leave::kPageOut;
  if (block != nullptr && block->is_exported()) note_disturbed();  // it stays
  if (block != nullptr) actions.push_back({is_awaited ? Action::Kind::kPageOut : Action::Kind::kDrop, block});
  if (is_awaited)
    page_outs_.add({i, agenda_->page_outs().ticket(i), counts_.windows, block, block != nullptr ? block->number : 0});
}

void PlanCursor::page_out_renewed(std::vector<Action>& actions) {
  for (const std::uint32_t i : renewed_leaving_) {
    const Row& row = agenda_->row(i);
    Block* const block = storages_.block_of(row.storage);
    const bool is_renewed = agenda_->is_renewed(row.storage, op_before());
    // Where it was made others are next, and its copy would keep them waiting.
    if (block != nullptr && is_renewed && row.leave == Leave::kPageOut)
      actions.push_back({Action::Kind::kMove, block, row.offset});
    end_row(i, actions);
  }
  renewed_leaving_.clear();
}

void PlanCursor::end_window(std::vector<Action>& actions) {
  for (const std::uint32_t i : agenda_->arriving_at_end())
    if (Block* block = storages_.block_of(agenda_->row(i).storage)) actions.push_back({Action::Kind::kNeed, block});
  page_outs_.note_needed(agenda_->ops());
  position_ = 0;
  ++counts_.windows;
  if (is_whole(standing_)) followed_window_ = agenda_->ops();
  page_outs_.begin_window(counts_.windows, ops_so_far(), actions);
}

void PlanCursor::enter(std::uint32_t op, const PlanCursor& from) {
  position_ = op;
  standing_ = is_whole(from.standing_) ? Standing::kContinued : Standing::kElsewhere;
  for (std::uint32_t at = 0; at < op; ++at) {
    const auto births = agenda_->births(at), others = from.agenda_->births(at);
    for (std::size_t k = 0; k < std::min(births.size(), others.size()); ++k)
      if (Block* block = from.block_of(others[k].storage)) bind(births[k].storage, *block);
  }
  if (&from != this) storages_.adopt_entries(from.storages_);
}

void PlanCursor::leave(std::vector<Action>& actions) {
  page_out_renewed(actions);
  position_ = 0;
  op_ = Op::kNone;
  standing_ = Standing::kElsewhere;
  page_outs_.await_all_queued(actions);
  storages_.begin_op();
  births_.forget();
  resync_.reset();
}

void PlanCursor::created(Block& block) {
  if (is_in_op() || op_ == Op::kLikely)
    births_.created(block);
  else
    births_.pass_by();
  temporaries_.created(block);
  if (op_ == Op::kSilent) miss(resync_.silent(), {});
}

void PlanCursor::died(Block& block) noexcept {
  births_.died(block);
  temporaries_.died(block);
  storages_.died(block);
}

std::optional<std::uint64_t> PlanCursor::place_of_birth(base::Bytes size, base::Bytes charged) {
  if (!is_in_op()) return std::nullopt;
  temporaries_.cancel_pending();
  const auto storage = births_.take_next(position_, size);
  if (!storage) return temporaries_.place(position_, charged, page_outs_);
  const Row* const row = agenda_->born_row(*storage, position_);
  return row != nullptr && row->bytes >= charged ? std::optional(row->offset) : std::nullopt;
}

void PlanCursor::places_of_births(PlacesOfBirths& places) const {
  if (!is_in_op()) return;
  for (const std::uint32_t i : agenda_->beginning(position_))
    if (const Row& row = agenda_->row(i); row.fill == Fill::kBorn) places.push_back({row.offset, row.bytes});
}

std::optional<std::uint64_t> PlanCursor::place_of(const Block& block) const {
  const auto storage = storages_.storage_of(block);
  const Row* const row = storage ? agenda_->row_at(*storage, position_) : nullptr;
  return row != nullptr && row->bytes >= block.charged ? std::optional(row->offset) : std::nullopt;
}

/// If no op is under way, the expected one may be the next use.
std::optional<std::uint64_t> PlanCursor::next_use(const Block& block) const {
  const auto storage = storages_.storage_of(block);
  return storage ? agenda_->next_use(*storage, is_in_op() ? position_ : op_before()) : std::nullopt;
}

std::optional<base::Bytes> PlanCursor::planned_at_begin() const {
  return is_in_op() ? less_not_submitted(agenda_->planned_at_begin(position_)) : std::nullopt;
}

std::optional<base::Bytes> PlanCursor::planned_at_end() const {
  return is_in_op() && !is_another() ? less_not_submitted(agenda_->planned_at_end(position_)) : std::nullopt;
}

std::optional<base::Bytes> PlanCursor::less_not_submitted(std::optional<base::Bytes> planned) const {
  return planned ? std::optional(*planned - page_outs_.not_submitted(ops_so_far())) : std::nullopt;
}

}  // namespace tensorpager::follow
