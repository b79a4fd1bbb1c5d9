// Admits ops: makes all of their arguments resident and pins them, or none.
#pragma once

#include <optional>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/dropped_blocks.h"

namespace tensorpager::pager {

class PinSet;

class Admission {
 public:
  /// Both must outlive this.
  Admission(Core& core, DroppedBlocks& dropped) : core_(core), dropped_(dropped) {}

  /// Makes what the set has seen resident, and pins it. Throws OverBudget, IoError.
  void admit(PinSet& pins);
  /// If blocks share one arena: makes sure that what the op is likely to create finds a place, by moving its arguments
  /// together if they leave none. Nobody may have taken their addresses yet.
  void keep_room(PinSet& pins);
  /// The error for an op that needs so many bytes, when all that is not pinned or in slabs is evicted; nullopt if it
  /// fits.
  std::optional<base::OverBudget> shortage_for(base::Bytes bytes);
  /// The op on this thread has pinned all that it needs. Takes no lock.
  void note_working_set() { core_.floor.note_working_set(); }

  // --- with the lock held
  /// The numbers of the blocks of the set that must be rebuilt first.
  static std::vector<std::uint64_t> dropped_among(const PinSet& pins);
  /// Pins the misses of the set, none of which is dropped. Throws OverBudget, IoError; then some may be pinned, which
  /// is kept for another try.
  void admit_locked(PinSet& pins);
  /// Whether all that the op under way allocates can go to its planned places.
  bool births_have_places() const;

 private:
  void admit_once(PinSet& pins);
  void make_room_for_births(PinSet& pins, base::Bytes expected);
  void pin_resident(PinSet& pins);
  void page_in(PinSet& pins);
  void finish_page_ins(PinSet& pins);
  Place make_place(PinSet& pins, const Wanted& wanted);
  void pin(PinSet& pins, Block& block, Access access);
  bool gather(PinSet& pins, base::Bytes wanted);

  Core& core_;
  DroppedBlocks& dropped_;
};

}  // namespace tensorpager::pager
