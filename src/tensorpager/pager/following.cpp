// Notifies an action source of ops, and compares what is resident with its plan. All with the lock held, but for the
// calls of ops.
#include <algorithm>
#include <utility>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {

void Pager::follow(ActionSource* source, const Prepare& prepare) {
  const Lock lock(*this);
  if (prepare) {
    std::unordered_map<std::uint64_t, Block*> blocks;
    for (std::size_t i = 0; i < policy_->size(); ++i) blocks[policy_->at(i)->number] = policy_->at(i);
    for (Block* block : absent_) blocks[block->number] = block;
    prepare(blocks);
  }
  count_followed(counts_);
  source_ = source;
  follower_ = source != nullptr ? &t_state : nullptr;
  page_ins_.clear();
  left_early_.clear();
  for (Block* leaving : leaving_) leaving->is_awaited = false;  // the new source will not await it
  if (source != nullptr) {
    for (Block* leaving : leaving_)
      page_ins_.push_back({.kind = Action::Kind::kAwaitQueued, .block = leaving, .number = leaving->number});
  }
  if (is_placed_) placed_->places().keep_for_plans(source != nullptr ? source->planned_space() : base::Bytes(0));
  is_followed_.store(source != nullptr, std::memory_order_relaxed);
}

bool Pager::begin_op(const base::OpSignature& op, std::span<Block* const> touched) {
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  const Lock lock(*this);
  if (!is_told_to_source()) return false;
  actions_.clear();
  const bool is_expected = source_->begin_op(op, touched, actions_);
  execute_all(actions_);
  submit_page_ins(is_placed_ ? page_ins_until(touched) : 0);
  if (is_placed_) move_into_place(touched);
  note_curve();
  note_begin(is_expected);
  return is_expected;
}

void Pager::end_op() noexcept {
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  const Lock lock(*this);
  if (is_told_to_source()) tell_end();
}

/// Notifies the source of an allocation outside of ops. What the plan wants moved for it is done as far as possible.
bool Pager::tell_outside() {
  actions_.clear();
  static const std::uint64_t kOutside = base::name_hash(base::kOutside);
  const bool is_expected = source_->begin_op({.name = kOutside}, {}, actions_);
  execute_all(actions_);
  submit_page_ins();
  note_begin(is_expected);
  return is_expected;
}

void Pager::note_begin(bool is_expected) noexcept {
  if (is_expected) began_as_planned_ = is_as_planned(source_->planned_at_begin());
  const std::uint64_t misses = source_->misses();
  if (std::exchange(misses_before_, misses) != misses) as_planned_in_a_row_ = 0;
}

void Pager::tell_end() noexcept {
  const std::optional<base::Bytes> planned = source_->planned_at_end();
  const bool ends_as_planned = is_as_planned(planned);
  const bool is_whole = began_as_planned_ && ends_as_planned;
  if (planned) as_planned_in_a_row_ = is_whole ? as_planned_in_a_row_ + 1 : 0;  // else it was no op of the plan
  counts_.ops_as_planned += is_whole ? 1 : 0;
  counts_.most_ops_as_planned_in_a_row = std::max(counts_.most_ops_as_planned_in_a_row, as_planned_in_a_row_);
  actions_.clear();
  source_->end_op(actions_);
  if (const std::uint32_t ops = source_->followed_window(); ops > 0) {
    ++counts_.followed_windows;
    counts_.windows_as_planned += as_planned_in_a_row_ >= ops ? 1 : 0;
  }
  execute_all(actions_);
  submit_page_ins();
}

/// Bytes of charged blocks as a plan counts them: a page-in counts from its request, and the page-outs that it waits
/// for no longer do.
base::Bytes Pager::resident_by_plan() const noexcept {
  base::Bytes bytes = ledger_.resident() - ledger_.slabs();
  for (const LeftEarly& one : left_early_) bytes += one.bytes;
  for (const Action& action : page_ins_) {
    if (action.kind != Action::Kind::kPageIn) continue;
    const bool is_twice = action.block->leaving;
    if (is_twice || !action.block->is_charged()) bytes += action.block->charged;
  }
  // Each counts once, however often it is awaited there: it may have come back since, and be leaving once more.
  for (const Block* leaving : leaving_)
    if (!leaving->is_awaited && is_awaited_in_queue(leaving->number)) bytes -= leaving->charged;
  return bytes;
}

/// Counts the difference from the plan. Returns false if nothing is planned.
bool Pager::is_as_planned(std::optional<base::Bytes> planned) noexcept {
  if (!planned) return false;
  const base::Bytes now = resident_by_plan();
  const base::Bytes difference = now > *planned ? now - *planned : *planned - now;
  counts_.planned_difference_bytes = std::max(counts_.planned_difference_bytes, difference.count());
  return difference == base::Bytes(0);
}

/// Whether all that the op under way allocates can go to its planned places.
bool Pager::births_have_places() {
  if (!is_told_to_source()) return false;
  std::vector<PlannedPlace> places;
  source_->places_of_births(places);
  return std::ranges::all_of(places,
                             [&](const PlannedPlace& place) { return placed_->places().to_clear(place).has_value(); });
}

Wanted Pager::place_for(const Block& block, base::Bytes keep_whole) const {
  return {.bytes = block.charged,
          .keep_whole = keep_whole,
          .at = is_placed_ && source_ != nullptr ? source_->place_of(block) : std::nullopt};
}

/// Notes that the block leaves before the plan awaits it.
void Pager::note_left_early(const Block& block) {
  if (block.is_awaited) left_early_.push_back({block.number, block.charged});
}

void Pager::forget_left_early(std::uint64_t number) {
  const auto found = std::ranges::find(left_early_, number, &LeftEarly::block);
  if (found != left_early_.end()) left_early_.erase(found);
}

namespace {

/// An unplanned block is assumed as far from its next use as from its last. A block accessed since the last op is in
/// use outside ops, which plans know nothing of.
std::uint64_t distance_of(const ActionSource& source, const Block& block, std::uint64_t now) {
  const std::uint64_t last_use = block.last_use.load(std::memory_order_relaxed);
  if (last_use >= now) return 0;
  return source.next_use(block).value_or(now - last_use);
}

}  // namespace

/// The evictable block whose next use, if a plan knows it, is farthest; null if nothing can leave.
Block* Pager::choose_victim() {
  if (source_ == nullptr) return policy_->choose();
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  Block* farthest = nullptr;
  std::uint64_t farthest_distance = 0;
  for (std::size_t i = 0; i < policy_->size(); ++i) {
    Block* block = policy_->at(i);
    if (!block->is_evictable()) continue;
    const std::uint64_t distance = distance_of(*source_, *block, now);
    if (farthest != nullptr && distance <= farthest_distance) continue;
    farthest = block;
    farthest_distance = distance;
  }
  return farthest;
}

}  // namespace tensorpager::pager
