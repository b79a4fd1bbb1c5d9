// Admits ops: makes all of their arguments resident and pins them, or none. All calls are made with the pager's lock
// held.
#pragma once

#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/placed_binding.h"
#include "tensorpager/pager/room.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

class Pager;
class PinSet;

class Admission {
 public:
  /// All must outlive this.
  Admission(Pager& pager, Binding& binding, Transfers& transfers, Room& room)
      : pager_(pager), placed_(binding.placed()), transfers_(transfers), room_(room) {}

  /// The numbers of the blocks of the set that must be rebuilt first.
  static std::vector<std::uint64_t> dropped_among(const PinSet& pins);
  /// Pins the misses of the set. Throws OverBudget, IoError; then some may be pinned, which is kept for another try.
  void admit(PinSet& pins);
  /// If blocks have places: makes sure that so many bytes find one, as far as the budget has them, by moving the blocks
  /// of the set together if they leave none. Nobody may have taken their addresses yet. Throws IoError.
  void keep_room(PinSet& pins, base::Bytes expected);

 private:
  void pin_resident(PinSet& pins);
  void page_in(PinSet& pins);
  void finish_page_ins(PinSet& pins);
  Place make_place(PinSet& pins, const Wanted& wanted);
  void pin(PinSet& pins, Block& block, Access access);
  bool gather(PinSet& pins, base::Bytes wanted);

  Pager& pager_;
  PlacedBinding* const placed_;  // the binding, if its blocks have places; else null
  Transfers& transfers_;
  Room& room_;
};

}  // namespace tensorpager::pager
