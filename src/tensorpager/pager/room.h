// Makes room for what becomes resident: under a budget, and in an arena if blocks share one. All calls are made with
// the pager's lock held.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/floor.h"
#include "tensorpager/pager/page_mover.h"
#include "tensorpager/pager/places.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

class Room {
 public:
  /// All must outlive this. `clock`: the op index.
  Room(const BlockTable& table, Binding& binding, Transfers& transfers, const Executor& executor, Statistics& counts,
       const std::atomic<std::uint64_t>& clock, Floor& floor)
      : table_(table),
        mover_(binding.page_mover()),
        placed_(binding.placed()),
        transfers_(transfers),
        executor_(executor),
        counts_(counts),
        clock_(clock),
        floor_(floor) {}

  /// For bindings without places: submits page-outs until those in flight will leave this much room, all before the
  /// first is waited for. Throws OverBudget, IoError.
  void submit(base::Bytes bytes);
  /// The same, and waits for them.
  void make(base::Bytes bytes);
  /// Returns a free place; for a binding without places, once there is room. Throws OverBudget, IoError.
  Place make_place(const Wanted& wanted);
  /// The place for a block that is paged in, of which an op needs `keep_whole` bytes more.
  Wanted wanted_for(const Block& block, base::Bytes keep_whole = {}) const;

  /// Makes an absent block resident, waiting for its bytes. Throws OverBudget, IoError.
  void bring_in(Block& block, Access access);
  /// The same for a fault, which cannot be refused: if no room can be made the budget is exceeded, which the ledger
  /// counts.
  void bring_in_anyway(Block& block, Access access);

  /// Bytes that cannot be evicted now.
  base::Bytes pinned() const;

 private:
  const arena::Ledger& ledger() const { return table_.ledger(); }
  Block* choose_victim() const;
  bool end_a_transfer();
  bool cancel_unneeded_page_in();

  const BlockTable& table_;
  PageMover* const mover_;       // the binding, if it moves pages; else null
  PlacedBinding* const placed_;  // the binding, if its blocks have places; else null
  Transfers& transfers_;
  const Executor& executor_;
  Statistics& counts_;
  const std::atomic<std::uint64_t>& clock_;
  Floor& floor_;
};

}  // namespace tensorpager::pager
