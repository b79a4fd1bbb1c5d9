#include "tensorpager/sim/bookkeeping_binding.h"

namespace tensorpager::sim {

using base::Bytes;
using pager::Block;
using pager::Place;

std::byte* BookkeepingBinding::make_name(Bytes bytes) { return space_.take(base::round_up(bytes, base::kPage)); }

std::byte* BookkeepingBinding::acquire(Block& block, const Place& place, Bytes) {
  std::byte* name = make_name(block.charged);
  places_.take(place, block);
  return name;
}

std::byte* BookkeepingBinding::acquire_slab_chunk(const Place& place, Bytes) {
  places_.take_for_slab(place);
  return make_name(place.bytes);
}

void BookkeepingBinding::release(Block& block) noexcept {
  if (pager::Places::has(block)) places_.give_back(block);
  space_.give_back(block.data, base::round_up(block.charged, base::kPage));
}

void BookkeepingBinding::leave_place_to(Block& old, Block& block) {
  old.data = make_name(old.charged);
  places_.leave_to(old, block);
}

std::vector<arena::Piece> BookkeepingBinding::stage(Block& block, const Place& place, Bytes) {
  places_.take(place, block);
  return {{block.data, block.charged}};
}

}  // namespace tensorpager::sim
