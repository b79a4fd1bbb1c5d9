// Executes what an action source wants done, and keeps the queue of page-ins that wait for page-outs or for room. A
// failed transfer is tried again by the op that needs the room or the bytes. All calls are made with the pager's lock
// held.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/op_signature.h"
#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/as_planned_counts.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/place_order.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

class Executor {
 public:
  /// All must outlive this. `clock`: the op index.
  Executor(BlockTable& table, Transfers& transfers, PlaceOrder& places, Binding& binding, Statistics& counts,
           const std::atomic<std::uint64_t>& clock)
      : table_(table),
        transfers_(transfers),
        places_(places),
        placed_(binding.placed()),
        counts_(counts),
        clock_(clock),
        as_planned_(counts) {}

  /// Page-outs in flight go on; page-ins to come wait for them. Null: from now on nothing is executed.
  void follow(ActionSource* source);
  ActionSource* source() const { return source_; }
  /// Adds what the source counted, if there is one.
  void count_followed(Statistics& counts) const;
  /// Of blocks that the source drops; null: they are paged out instead.
  void set_rebuilder(Rebuilder* rebuilder) { rebuilder_ = rebuilder; }

  /// Returns whether it is the op that the source expects; if so `end_op` follows.
  bool begin_op(const base::OpSignature& op, std::span<Block* const> touched);
  /// The same for an allocation outside of ops, which is an op of the trace by itself.
  bool begin_outside();
  static base::OpSignature outside();
  void end_op() noexcept;
  void note_comparison() { as_planned_.note_comparison(); }

  /// Submits queued page-ins in order, as far as the page-outs that they wait for are done or pass their pages on, and
  /// there is room; the rest at the next op. Compute waits for the first `must`: if blocks have places, a block that
  /// the op uses before it has left is not where others expect it.
  void submit_page_ins(std::size_t must = 0);
  /// Removes the block's page-ins that are not submitted yet. Returns whether there were any.
  bool forget_page_ins(const Block& block) noexcept;
  void forget_page_ins() { page_ins_.clear(), ++edits_; }
  /// The block leaves memory, comes back or dies before the plan awaits its page-out; the plan counts it until then.
  void note_left_early(const Block& block);
  /// Returns nullopt if the place is not free. An unplanned block in it is evicted only when an op needs room.
  std::optional<Place> find_free_place(const Wanted& wanted) const;

 private:
  /// A block whose page-out the plan has yet to await, and which is not leaving any more.
  struct LeftEarly {
    std::uint64_t block;  // its number
    base::Bytes bytes;
  };

  /// What the plan counts otherwise than the ledger, and when that was summed: by changes of states and by edits here.
  struct Difference {
    base::Bytes more, less;
    std::uint64_t changes = ~std::uint64_t{0}, edits = 0;
  };

  void execute_all() noexcept;
  void execute(const Action& action);
  void forget(Block& block);
  void page_out(Block& block, bool is_awaited);
  void take_back_or_leave(Block& block);
  std::size_t page_ins_until(std::span<Block* const> touched) const;
  bool move(Block& block, std::uint64_t offset);
  void move_into_place(std::span<Block* const> touched);
  void clear_and_move(Block& block, std::uint64_t offset);
  bool is_queued(const Block& block) const;
  bool is_awaited_in_queue(std::uint64_t number) const;
  void forget_left_early(std::uint64_t number);
  void note_begin(bool is_expected) noexcept;
  base::Bytes charged_by_plan() noexcept;
  Difference sum_difference() const noexcept;
  void queue(const Action& action);

  BlockTable& table_;
  Transfers& transfers_;
  PlaceOrder& places_;
  PlacedBinding* const placed_;  // the binding, if its blocks have places; else null
  Statistics& counts_;
  const std::atomic<std::uint64_t>& clock_;
  ActionSource* source_ = nullptr;
  Rebuilder* rebuilder_ = nullptr;
  std::vector<Action> actions_;  // of the op that begins or ends
  std::deque<Action> page_ins_;  // not submitted yet, with the page-outs that they wait for
  std::vector<LeftEarly> left_early_;
  AsPlannedCounts as_planned_;
  Difference difference_;
  std::uint64_t edits_ = 0;  // of the queue, of who is awaited, of left_early_
};

}  // namespace tensorpager::pager
