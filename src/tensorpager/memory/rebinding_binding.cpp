#include "tensorpager/memory/rebinding_binding.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::memory {

using arena::Piece;
using base::Bytes;
using pager::Access;
using pager::Block;
using pager::Place;

namespace {

constexpr Bytes kOpenStep{std::uint64_t{32} << 20};

Bytes addresses_to_hold() { return base::round_up(base::physical_memory() + base::physical_memory(), kOpenStep); }

}  // namespace

RebindingBinding::RebindingBinding(arena::AddressSpace& space, pager::Holders& holders, PlaceReuse reuse)
    : PlacedBinding(base::kPage, addresses_to_hold()),
      space_(space),
      holders_(holders),
      reuse_(reuse),
      range_(addresses_to_hold()),
      base_(space.take(range_)),
      is_open_(range_.count() / kOpenStep.count()) {}

void RebindingBinding::protect(std::byte* at, Bytes size, int protection) {
  ++system_calls_;
  if (mprotect(at, size.count(), protection) != 0) throw base::IoError("mprotect", "the arena", size, errno);
}

void RebindingBinding::move(Block& block, const Place& to) {
  open(to);
  const bool was_protected = poison_ && block.is_clean();
  if (was_protected) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
  std::memmove(base_ + to.offset, block.data, block.charged.count());
  space_.set_owner(block.data, nullptr);
  block.data = base_ + to.offset;
  space_.set_owner(block.data, &block);
  if (was_protected) protect(block.data, block.charged, PROT_READ);
  holders_.set_data(block, block.data);
  places_.move(block, to);
}

/// Opens only part of the arena: accessible bytes count against the process's limit of data (`ulimit -d`), used or not.
void RebindingBinding::open(const Place& place) {
  for (std::uint64_t step = place.offset / kOpenStep.count(); step * kOpenStep.count() < place.end(); ++step) {
    if (is_open_[step]) continue;
    protect(base_ + step * kOpenStep.count(), kOpenStep, PROT_READ | PROT_WRITE);
    is_open_[step] = true;
  }
}

std::byte* RebindingBinding::acquire(Block& block, const Place& place, Bytes) {
  open(place);
  places_.take(place, block);
  return base_ + place.offset;
}

std::byte* RebindingBinding::acquire_slab_chunk(const Place& place, Bytes) {
  open(place);
  places_.take_for_slab(place);
  return base_ + place.offset;
}

void RebindingBinding::release(Block& block) noexcept {
  if (block.data != nullptr) {
    if (block.is_clean() && poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    if (poison_) std::memset(block.data, pager::kPoison, block.charged.count());
    places_.give_back(block);
  }
  if (block.holder != nullptr) holders_.forget(block);
}

pager::Relocation RebindingBinding::begin_unbind(Block& block) {
  holders_.set_data(block, nullptr);
  if (poison_) {
    protect(block.data, block.charged, PROT_READ | PROT_WRITE);
    if (!block.copying) std::memset(block.data, pager::kPoison, block.charged.count());
  }
  space_.set_owner(block.data, nullptr);
  places_.give_back(block);
  block.data = nullptr;
  return {.way = pager::Relocation::Way::kOut};
}

void RebindingBinding::leave_place_to(Block& old, Block& block) {
  holders_.set_data(block, nullptr);
  space_.set_owner(block.data, nullptr);
  old.data = std::exchange(block.data, nullptr);
  places_.leave_to(old, block);
}

std::vector<Piece> RebindingBinding::stage(Block& block, const Place& place, Bytes pool_allowance) {
  return {{acquire(block, place, pool_allowance), block.charged}};
}

pager::Relocation RebindingBinding::begin_bind(Block& block, std::vector<Piece> pieces, Access access) {
  block.data = pieces.front().at;
  // The fuzzer finds writes that no op announced: they fault, and are counted.
  if (poison_ && access == Access::kRead) protect(block.data, block.charged, PROT_READ);
  space_.set_owner(block.data, &block);
  holders_.set_data(block, block.data);
  return {.way = pager::Relocation::Way::kIn};
}

pager::Relocation RebindingBinding::begin_take_over(Block& block, Block& fresh) {
  if (fresh.holder != nullptr) holders_.forget(fresh);
  places_.hand_over(fresh, block);
  return begin_bind(block, {{std::exchange(fresh.data, nullptr), fresh.charged}}, Access::kWrite);
}

void RebindingBinding::discard(Block& block, std::span<const Piece>) noexcept { places_.give_back(block); }

void RebindingBinding::make_writable(Block& block) {
  if (poison_) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
}

}  // namespace tensorpager::memory
