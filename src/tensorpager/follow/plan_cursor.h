// Follows a plan, window after window: knows which op comes next and which blocks the plan's storages are, and turns
// the plan's rows into actions.
//
// Storages are matched by birth: of the blocks that an op made and that live when it ends, the k-th is the k-th
// pageable birth of the trace's op. Storages of the entry are bound before the first window; those born in a window are
// known in the next. An unknown storage becomes known at an op of the plan that touches one block more than is known,
// of its size. If a storage dies that lives on in the trace, while one whose death the trace has lives on, the latter
// takes its place.
//
// Ops that touch no pageable storage are reported too, and most are not of the plan: one with the expected name is
// assumed to be the plan's until it ends without having made anything.
//
// An op that is not the expected one is a plan miss, and is served on demand; the plan waits for it to pass. An op with
// the expected name and other sizes is followed; what it makes has other sizes, too, and goes to the planned places as
// far as it fits there. If two ops in a row are found a little further on, by their names and sizes, or the first by
// its name and what it touches, or at the window's begin, the ops between were left out: their page-outs are made up
// for, and rows that are over are void. If that is not near, no other place of the plan may agree with more of the last
// ops: else they are a repetition, a layer that the plan does not have, say. If several ops in a row are found in none
// of these ways, as all sizes differ, the names of the last ops say where they are. A block that is not at its planned
// place stays there until its row ends, until another is to be there, or until the next window begins: a window that
// does not continue from the plan's op before begins with what the plan has resident then, at its places.
#pragma once

#include <memory>
#include <utility>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/birth_matcher.h"
#include "tensorpager/follow/page_out_queue.h"
#include "tensorpager/follow/resynchroniser.h"
#include "tensorpager/follow/storage_map.h"
#include "tensorpager/follow/temporary_places.h"
#include "tensorpager/pager/action_source.h"

namespace tensorpager::follow {

class PlanCursor final : public ActionSource {
 public:
  explicit PlanCursor(std::shared_ptr<const follow::Agenda> agenda);

  /// Binds a storage that is alive between windows to this block. Before the first op, or with the pager's lock held.
  void bind(plan::StorageId storage, Block& block) { storages_.bind(storage, block); }
  /// Sets the places of the op's births among all that it makes, temporaries too; else they are known once it has run.
  void expect_made(std::uint32_t op, std::vector<std::uint32_t> places) { births_.expect(op, std::move(places)); }
  /// What was reported so far is history: nothing of it is counted, and no transfer is in flight.
  void begin_here();
  Block* block_of(plan::StorageId storage) const { return storages_.block_of(storage); }
  bool knows(const Block& block) const { return storages_.knows(block); }
  bool is_in_op() const { return in_op_; }  // whether the op under way is the plan's

  bool begin_op(const base::OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) override;
  bool moves_at_end() const override;
  void end_op(std::vector<Action>& actions) override;
  void created(Block& block) override;
  void died(Block& block) noexcept override;
  std::optional<std::uint64_t> place_of_birth(base::Bytes size, base::Bytes charged) override;
  void places_of_births(std::vector<PlannedPlace>& places) const override;
  std::optional<std::uint64_t> place_of(const Block& block) const override;
  base::Bytes planned_space() const override { return base::Bytes(agenda_->resident_rows().top()); }
  std::optional<std::uint64_t> next_use(const Block& block) const override;
  std::optional<base::Bytes> planned_at_begin() const override {
    return in_op_ ? less_not_submitted(agenda_->planned_at_begin(position_)) : std::nullopt;
  }
  std::optional<base::Bytes> planned_at_end() const override {
    return in_op_ && !is_another() ? less_not_submitted(agenda_->planned_at_end(position_)) : std::nullopt;
  }
  std::uint32_t followed_window() const override { return followed_window_; }
  std::uint64_t followed_ops() const override { return followed_; }
  std::uint64_t resized_ops() const override { return resized_; }
  std::uint64_t misses() const override { return misses_; }

  const follow::Agenda& agenda() const { return *agenda_; }
  bool expects(const base::OpSignature& op) const { return agenda_->signature(position_) == op; }
  /// Continues at `op` from `from`, which has followed this window so far (if `op` is 0, the last one), and whose plan
  /// has the same first ops. Storages alive between windows that are unknown here are bound to blocks that `from`
  /// knows. No window is under way here.
  void enter(std::uint32_t op, const PlanCursor& from);
  /// Ends the window: it is another plan's after all, or there will be none. Page-ins to come wait for what still
  /// leaves.
  void leave(std::vector<Action>& actions);
  /// The window under way differs from the plan: when the next begins all is brought to its planned state.
  void note_disturbed() {
    is_whole_ = false;
    is_disturbed_ = true;
  }
  /// Blocks that were storages of the plan until the last reported op, and no longer are.
  const std::vector<Block*>& replaced() const { return storages_.replaced(); }
  std::uint32_t position() const { return position_; }  // the op that is expected, or under way
  std::uint64_t windows() const { return windows_; }    // that ended

 private:
  void skip_to(std::uint32_t op, std::vector<Action>& actions);
  void begin_rows(std::vector<Action>& actions, std::optional<std::uint32_t> skipping_to = std::nullopt);
  void begin_elsewhere(std::vector<Action>& actions);
  void bring_about(std::vector<Action>& actions, bool elsewhere);
  void put_below(Block& block, std::vector<Action>& actions);
  std::optional<base::Bytes> less_not_submitted(std::optional<base::Bytes> planned) const;
  std::uint64_t ops_so_far() const { return windows_ * agenda_->ops() + position_; }
  void end_rows(std::vector<Action>& actions);
  void match_arguments(const base::OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions);
  void take_over(std::vector<Action>& actions);
  /// The op under way, which was taken for the plan's.
  bool is_another() const { return is_provisional_ && births_.made() == 0 && agenda_->makes_something(position_); }
  void miss(const base::OpSignature& op, std::span<Block* const> touched);

  std::shared_ptr<const follow::Agenda> agenda_;
  StorageMap storages_;
  PageOutQueue page_outs_;
  BirthMatcher births_;  // of the op under way, or the likely one before
  TemporaryPlaces temporaries_;
  Resynchroniser resync_;
  bool is_in_likely_ = false;  // the likely op is under way
  bool is_silent_ = false;     // an op is under way that may not be the plan's: it has made nothing so far
  std::uint32_t position_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t followed_ = 0;
  std::uint64_t resized_ = 0;
  std::uint64_t misses_ = 0;
  /// This window so far, or the last one: each op was the expected one, and used and held what the plan knows.
  bool is_whole_ = false;
  std::uint32_t followed_window_ = 0;
  bool is_elsewhere_ = true;   // the ops before were not of this plan, or of another part of it
  bool is_disturbed_ = false;  // by what is not of the plan, since it last began elsewhere
  bool in_op_ = false;
  bool is_provisional_ = false;  // the op under way has touched nothing, and should make something
};

}  // namespace tensorpager::follow
