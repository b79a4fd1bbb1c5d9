// Notifies an action source of ops. All with the lock held, but for the calls of ops.
#include <algorithm>
#include <exception>
#include <utility>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"
#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

void Pager::follow(ActionSource* source, const Prepare& prepare) {
  {
    const Lock lock(*this);
    if (prepare) {
      std::unordered_map<std::uint64_t, Block*> blocks;
      for (std::size_t i = 0; i < table_.residents(); ++i) blocks[table_.resident(i).number] = &table_.resident(i);
      for (Block* block : table_.absent()) blocks[block->number] = block;
      prepare(blocks);
    }
    count_followed(counts_);
    executor_.follow(source);
    follower_ = source != nullptr ? &t_state : nullptr;
    is_followed_.store(source != nullptr, std::memory_order_relaxed);
  }
  // Another plan may go on with what the one before had made.
  if (Rebuilder* const rebuilder = source == nullptr ? rebuilder_.load() : nullptr) rebuilder->end_plan();
}

BegunOp Pager::begin_op(const base::OpSignature& op, std::span<Block* const> touched, PinSet& pins) {
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  for (bool is_followed = true;;) {
    std::optional<DueReplay> due;
    {
      const Lock lock(*this);
      t_state.replayed_later = 0;
      if (!is_told_to_source()) return {};
      if (is_followed) due = due_replay(op);
      if (!due) {
        const bool is_expected = executor_.begin_op(op, touched);
        note_curve();
        if (!is_expected) return {};
        const bool are_uses_ordered = admit_at_begin(pins);
        ++t_state.followed_ops;
        t_state.replayed_later = executor_.source()->replayed_later();
        return {executor_.source()->ends_window() ? OpEnd::kAtOnce : OpEnd::kLate, births_have_places(),
                are_uses_ordered};
      }
    }
    is_followed = run_replay(*due);
  }
}

/// Throws nothing: what could not be pinned stays a miss. Returns whether the uses of the rest are ordered.
bool Pager::admit_at_begin(PinSet& pins) {
  pins.pin_ready();
  if (!pins.misses_.empty() && Admission::dropped_among(pins).empty()) {
    const std::uint64_t floor = floor_.load(std::memory_order_relaxed);
    try {
      admission_.admit(pins);
      note_curve();
    } catch (const std::exception&) {
      floor_.store(floor, std::memory_order_relaxed);  // `admit` tries again
    }
    pins.forget_pinned_misses();
  }
  return is_on_device() && order_uses_at_begin({pins.pins_.begin(), pins.pins_.size()});
}

BegunOp Pager::begin_replay(const DueReplay& replay, std::span<Block* const> touched, PinSet& pins) {
  const Lock lock(*this);
  if (!is_told_to_source() || !executor_.begin_op(replay.signature, touched)) return {};
  note_curve();
  const bool are_uses_ordered = admit_at_begin(pins);
  return {OpEnd::kAtOnce, births_have_places(), are_uses_ordered};
}

void Pager::note_comparison() {
  const Lock lock(*this);
  executor_.note_comparison();
}

/// Without a rebuilder nothing is dropped, and replays are passed over.
std::optional<DueReplay> Pager::due_replay(const base::OpSignature& next) {
  std::optional<DueReplay> due = executor_.source()->due_replay(next);
  while (due && rebuilder_.load() == nullptr && executor_.begin_op(due->signature, {})) {
    executor_.end_op();
    due = executor_.source()->due_replay(next);
  }
  return rebuilder_.load() != nullptr ? due : std::nullopt;
}

/// Before an allocation outside of ops, which is an op of the plan by itself.
void Pager::run_replays_before_outside() {
  for (;;) {
    std::optional<DueReplay> due;
    {
      const Lock lock(*this);
      if (is_told_to_source()) due = due_replay(Executor::outside());
    }
    if (!due || !run_replay(*due)) return;
  }
}

void Pager::end_op(OpEnd end) noexcept {
  if (end == OpEnd::kLate) return ended_.store(&t_state, std::memory_order_release);
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  const Lock lock(*this);
  if (is_told_to_source()) executor_.end_op();
}

/// Whether all that the op under way allocates can go to its planned places.
bool Pager::births_have_places() {
  if (!is_placed() || !is_told_to_source()) return false;
  PlacesOfBirths places;
  executor_.source()->places_of_births(places);
  const auto can_clear = [&](const PlannedPlace& place) { return placed_->places().can_clear(place); };
  return std::all_of(places.begin(), places.end(), can_clear);
}

}  // namespace tensorpager::pager
