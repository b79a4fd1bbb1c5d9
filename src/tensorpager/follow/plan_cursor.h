// Follows the plan of one class of windows, window after window: knows which op comes next, turns the plan's rows into
// actions, and says where the plan has blocks.
//
// Its parts have rules of their own: which blocks the plan's storages are (StorageMap) and the op's results
// (BirthMatcher), where temporaries go (TemporaryPlaces), which page-outs are under way (PageOutQueue), where the
// program is after a plan miss (Resynchroniser), and how residency stands to the plan (Standing). Missed ops are served
// on demand; rows of ops that were left out are made up for, and those that are over are void. docs/architecture.md
// tells the whole.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/birth_matcher.h"
#include "tensorpager/follow/page_out_queue.h"
#include "tensorpager/follow/resynchroniser.h"
#include "tensorpager/follow/standing.h"
#include "tensorpager/follow/storage_map.h"
#include "tensorpager/follow/temporary_places.h"
#include "tensorpager/pager/action_source.h"

namespace tensorpager::follow {

class PlanCursor final : public ActionSource {
 public:
  explicit PlanCursor(std::shared_ptr<const Agenda> agenda);

  /// Binds a storage that is alive between windows to this block. Before the first op, or with the pager's lock held.
  void bind(StorageId storage, Block& block) { storages_.bind(storage, block); }
  /// Sets the places of the op's births among all that it makes, temporaries too; else they are known once it has run.
  void expect_made(std::uint32_t op, std::vector<std::uint32_t> places) { births_.expect(op, std::move(places)); }
  /// What was reported so far is history: nothing of it is counted, and no transfer is in flight.
  void begin_here();
  Block* block_of(StorageId storage) const { return storages_.block_of(storage); }
  bool knows(const Block& block) const { return storages_.knows(block); }
  /// Whether the op under way is the plan's.
  bool is_in_op() const { return op_ == Op::kPlanned || op_ == Op::kProvisional; }

  bool begin_op(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) override;
  bool ends_window() const override { return position_ + 1 == agenda_->ops(); }
  void end_op(std::vector<Action>& actions) override;
  std::optional<DueReplay> due_replay(const OpSignature& next) const override;
  std::uint64_t replayed_later() const override {
    return is_in_op() && agenda_->replays().is_replayed_later(position_) ? position_ + std::uint64_t{1} : 0;
  }
  void taken_over(Block& block, Block& fresh) override;
  void created(Block& block) override;
  void died(Block& block) noexcept override;
  std::optional<std::uint64_t> place_of_birth(base::Bytes size, base::Bytes charged) override;
  void places_of_births(PlacesOfBirths& places) const override;
  std::optional<std::uint64_t> place_of(const Block& block) const override;
  base::Bytes planned_space() const override { return base::Bytes(agenda_->resident_rows().top()); }
  std::optional<std::uint64_t> next_use(const Block& block) const override;
  std::optional<base::Bytes> planned_at_begin() const override;
  std::optional<base::Bytes> planned_at_end() const override;
  std::uint32_t followed_window() const override { return followed_window_; }
  std::uint64_t followed_ops() const override { return counts_.followed; }
  std::uint64_t resized_ops() const override { return counts_.resized; }
  std::uint64_t misses() const override { return counts_.misses; }

  const Agenda& agenda() const { return *agenda_; }
  bool expects(const OpSignature& op) const { return agenda_->signature(position_) == op; }
  /// Continues at `op` from `from`, which has followed this window so far (if `op` is 0, the last one), and whose plan
  /// has the same first ops. Storages alive between windows that are unknown here are bound to blocks that `from`
  /// knows. No window is under way here: the cursor was left.
  void enter(std::uint32_t op, const PlanCursor& from);
  /// Ends the window: it is another plan's after all, or there will be none. Page-ins to come wait for what still
  /// leaves.
  void leave(std::vector<Action>& actions);
  /// The window under way differs from the plan: when the next begins all is brought to its planned state.
  void note_disturbed() { standing_ = disturbed(standing_); }
  /// Blocks that were storages of the plan until the last reported op, and no longer are.
  const std::vector<Block*>& replaced() const { return storages_.replaced(); }
  std::uint32_t position() const { return position_; }       // the op that is expected, or under way
  std::uint64_t windows() const { return counts_.windows; }  // that ended

 private:
  /// What the op under way is to the plan. `begin_op` sets it: kPlanned or kProvisional if it is the expected one, or
  /// is found further on; else kSilent if it touches nothing, else kLikely or kMissed. A silent op that makes something
  /// is missed. `end_op` and `leave` set kNone.
  enum class Op : std::uint8_t {
    kNone,         // no op is under way
    kPlanned,      // the plan's
    kProvisional,  // assumed to be the plan's, until it ends without having made anything: it has touched nothing
    kSilent,       // of no plan, unless it makes something
    kMissed,       // another than the expected one
    kLikely,       // likewise, and probably one further on: if the next op agrees, what it made is known
  };
  struct Counts {
    std::uint64_t windows = 0, followed = 0, resized = 0, misses = 0;
  };

  void follow(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions);
  void miss(const OpSignature& op, std::span<Block* const> touched);
  bool is_another() const;
  void take_over(std::vector<Action>& actions);
  void match_arguments(const OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions);
  void reach_state(std::vector<Action>& actions);
  void skip_to(std::uint32_t op, std::vector<Action>& actions);
  void begin_rows(std::vector<Action>& actions, std::optional<std::uint32_t> skipping_to = std::nullopt);
  void note_made();
  void end_rows(std::vector<Action>& actions);
  /// The block of a row leaves its place.
  void end_row(std::uint32_t i, std::vector<Action>& actions);
  void page_out_renewed(std::vector<Action>& actions);
  void end_window(std::vector<Action>& actions);
  std::optional<base::Bytes> less_not_submitted(std::optional<base::Bytes> planned) const;
  std::uint32_t op_before() const { return (position_ == 0 ? agenda_->ops() : position_) - 1; }
  std::uint64_t ops_so_far() const { return counts_.windows * agenda_->ops() + position_; }

  std::shared_ptr<const Agenda> agenda_;
  StorageMap storages_;
  BirthMatcher births_;  // of the op under way, or the likely one before
  TemporaryPlaces temporaries_;
  PageOutQueue page_outs_;
  // Rows that end with the last op, if it renewed a storage of theirs: which block that is now is known when the next
  // op begins, as the program lets go of the one before in between.
  std::vector<std::uint32_t> renewed_leaving_;
  Resynchroniser resync_;
  Op op_ = Op::kNone;
  Standing standing_ = Standing::kElsewhere;
  std::uint32_t position_ = 0;
  std::uint32_t followed_window_ = 0;
  Counts counts_;
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> made_;  // block numbers, by op that is replayed later
};

}  // namespace tensorpager::follow
