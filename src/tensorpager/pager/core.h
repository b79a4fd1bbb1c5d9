// What the parts of a pager share. All of it is read and changed with the lock held, but what is atomic, pins, and what
// says that it takes none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/ledger.h"
#include "tensorpager/base/event_sink.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/curve.h"
#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/floor.h"
#include "tensorpager/pager/follower.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/paging_time.h"
#include "tensorpager/pager/pins.h"
#include "tensorpager/pager/place_order.h"
#include "tensorpager/pager/placed_binding.h"
#include "tensorpager/pager/rebuilder.h"
#include "tensorpager/pager/relief.h"
#include "tensorpager/pager/room.h"
#include "tensorpager/pager/states.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

struct Core {
  /// Both must outlive this.
  Core(arena::AddressSpace& addresses, Binding& memory, std::unique_ptr<EvictionPolicy> policy)
      : space(addresses), binding(memory), placed(memory.placed()), table(std::move(policy)) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  arena::AddressSpace& space;
  Binding& binding;
  PlacedBinding* const placed;          // the same, if its blocks have places; else null
  std::atomic<std::uint64_t> clock{0};  // op index; goes on from session to session, as last uses do
  Statistics counts;                    // what others do not keep
  BlockTable table;
  PlaceOrder places{binding, counts};
  Transfers transfers{table, binding, places, counts, clock};
  Executor executor{table, transfers, places, binding, counts, clock};
  Floor floor{table.ledger()};
  Room room{table, binding, transfers, executor, counts, clock, floor};
  Pins pins{clock};
  Relief relief{floor};
  Follower follower{executor, places.device()};
  Mutex mutex{follower};
  std::atomic<base::EventSink*> sink{nullptr};      // null: events go nowhere
  std::atomic<Rebuilder*> rebuilder{nullptr};       // null: no blocks are dropped
  std::atomic<std::int64_t> paging_nanoseconds{0};  // of the session
  std::uint64_t first_op = 0;                       // the clock at the start of this session
  std::optional<Curve> curve;                       // if the session has one

  const arena::Ledger& ledger() const { return table.ledger(); }
  bool is_on_device() const { return places.device().is_on_device(); }
  /// What takes time from here to the end of the scope is paging. Takes no lock.
  PagingTime time_paging() {
    const bool is_timed = sink.load(std::memory_order_acquire) != nullptr || follower.is_active();
    return PagingTime(is_timed, &paging_nanoseconds);
  }
  void note_curve() {
    if (curve) curve->note(clock.load(std::memory_order_relaxed) - first_op, ledger().live(), ledger().charged());
  }
};

}  // namespace tensorpager::pager
