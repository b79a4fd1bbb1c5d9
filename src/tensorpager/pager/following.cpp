#include "tensorpager/pager/following.h"

#include <exception>

#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

void Following::follow(ActionSource* source, const Prepare& prepare) {
  {
    const Lock lock(core_.mutex);
    const BlockTable& table = core_.table;
    if (prepare) {
      std::unordered_map<std::uint64_t, Block*> blocks;
      for (std::size_t i = 0; i < table.residents(); ++i) blocks[table.resident(i).number] = &table.resident(i);
      for (Block* block : table.absent()) blocks[block->number] = block;
      prepare(blocks);
    }
    core_.executor.count_followed(core_.counts);
    core_.follower.follow(source);
  }
  // Another plan may go on with what the one before had made.
  if (Rebuilder* const rebuilder = source == nullptr ? core_.rebuilder.load() : nullptr) rebuilder->end_plan();
}

BegunOp Following::begin_op(const base::OpSignature& op, std::span<Block* const> touched, PinSet& pins) {
  const PagingTime paging = core_.time_paging();
  for (bool is_followed = true;;) {
    std::optional<DueReplay> due;
    {
      const Lock lock(core_.mutex);
      t_state.replayed_later = 0;
      if (!core_.follower.is_told_to_source()) return {};
      if (is_followed) due = due_replay(op);
      if (!due) {
        const bool is_expected = core_.executor.begin_op(op, touched);
        core_.note_curve();
        if (!is_expected) return {};
        const bool are_uses_ordered = admit(pins);
        ++t_state.followed_ops;
        const ActionSource& source = *core_.executor.source();
        t_state.replayed_later = source.replayed_later();
        return {source.ends_window() ? OpEnd::kAtOnce : OpEnd::kLate, admission_.births_have_places(),
                are_uses_ordered};
      }
    }
    is_followed = dropped_.run_replay(*due);
  }
}

BegunOp Following::begin_replay(const DueReplay& replay, std::span<Block* const> touched, PinSet& pins) {
  const Lock lock(core_.mutex);
  if (!core_.follower.is_told_to_source() || !core_.executor.begin_op(replay.signature, touched)) return {};
  core_.note_curve();
  const bool are_uses_ordered = admit(pins);
  return {OpEnd::kAtOnce, admission_.births_have_places(), are_uses_ordered};
}

/// Throws nothing: what could not be pinned stays a miss. Returns whether the uses of the rest are ordered.
bool Following::admit(PinSet& pins) {
  pins.pin_ready();
  if (!pins.misses_.empty() && Admission::dropped_among(pins).empty()) {
    const base::Bytes floor = core_.floor.bytes();
    try {
      admission_.admit_locked(pins);
      core_.note_curve();
    } catch (const std::exception&) {
      core_.floor.set(floor);  // `Admission::admit` tries again
    }
    pins.forget_pinned_misses();
  }
  return core_.is_on_device() && ordering_.order_uses_locked({pins.pins_.begin(), pins.pins_.size()});
}

void Following::note_comparison() {
  const Lock lock(core_.mutex);
  core_.executor.note_comparison();
}

void Following::end_op(OpEnd end) noexcept {
  if (end == OpEnd::kLate) return core_.follower.note_end();
  const PagingTime paging = core_.time_paging();
  const Lock lock(core_.mutex);
  if (core_.follower.is_told_to_source()) core_.executor.end_op();
}

/// Without a rebuilder nothing is dropped, and replays are passed over.
std::optional<DueReplay> Following::due_replay(const base::OpSignature& next) {
  Executor& executor = core_.executor;
  std::optional<DueReplay> due = executor.source()->due_replay(next);
  while (due && core_.rebuilder.load() == nullptr && executor.begin_op(due->signature, {})) {
    executor.end_op();
    due = executor.source()->due_replay(next);
  }
  return core_.rebuilder.load() != nullptr ? due : std::nullopt;
}

void Following::run_replays_before_outside() {
  for (;;) {
    std::optional<DueReplay> due;
    {
      const Lock lock(core_.mutex);
      if (core_.follower.is_told_to_source()) due = due_replay(Executor::outside());
    }
    if (!due || !dropped_.run_replay(*due)) return;
  }
}

}  // namespace tensorpager::pager
