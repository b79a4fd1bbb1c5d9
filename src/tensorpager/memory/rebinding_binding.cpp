#include "tensorpager/memory/rebinding_binding.h"

#include <utility>

namespace tensorpager::memory {

using arena::Piece;
using base::Bytes;
using pager::Access;
using pager::Block;
using pager::Place;
using Protection = ArenaMemory::Protection;

RebindingBinding::RebindingBinding(arena::AddressSpace& space, pager::Holders& holders, PlaceReuse reuse)
    : RebindingBinding(space, holders, std::make_unique<HostArena>(space), reuse) {}

RebindingBinding::RebindingBinding(arena::AddressSpace& space, pager::Holders& holders,
                                   std::unique_ptr<ArenaMemory> memory, PlaceReuse reuse)
    : PlacedBinding(memory->granule(), memory->most()),
      space_(space),
      holders_(holders),
      memory_(std::move(memory)),
      reuse_(reuse) {}

void RebindingBinding::move(Block& block, const Place& to) {
  std::byte* const at = memory_->open(to);
  std::byte* const from = block.data;
  const bool was_protected = poison_ && block.is_clean();
  if (was_protected) memory_->protect(from, block.charged, Protection::kWritable);
  memory_->move(at, from, block.charged);
  space_.set_owner(from, nullptr);
  block.data = at;
  space_.set_owner(at, &block);
  if (was_protected) memory_->protect(at, block.charged, Protection::kReadOnly);
  holders_.set_data(block, at);
  places_.move(block, to);
  memory_->close(from);
}

/// The block has no bytes there any more.
void RebindingBinding::free_place(Block& block) noexcept {
  places_.give_back(block);
  memory_->close(std::exchange(block.data, nullptr));
}

std::byte* RebindingBinding::acquire(Block& block, const Place& place, Bytes) {
  std::byte* const at = memory_->open(place);
  places_.take(place, block);
  return at;
}

std::byte* RebindingBinding::acquire_slab_chunk(const Place& place, Bytes) {
  std::byte* const at = memory_->open(place);
  places_.take_for_slab(place);
  return at;
}

void RebindingBinding::release(Block& block) noexcept {
  if (block.data != nullptr) {
    if (block.is_clean() && poison_) memory_->protect(block.data, block.charged, Protection::kWritable);
    if (poison_) memory_->poison(block.data, block.charged);
    free_place(block);
  }
  if (block.holder != nullptr) holders_.forget(block);
}

pager::Relocation RebindingBinding::begin_unbind(Block& block) {
  holders_.set_data(block, nullptr);
  if (poison_) {
    memory_->protect(block.data, block.charged, Protection::kWritable);
    if (!block.copying) memory_->poison(block.data, block.charged);
  }
  space_.set_owner(block.data, nullptr);
  free_place(block);
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
  if (poison_ && access == Access::kRead) memory_->protect(block.data, block.charged, Protection::kReadOnly);
  space_.set_owner(block.data, &block);
  holders_.set_data(block, block.data);
  return {.way = pager::Relocation::Way::kIn};
}

pager::Relocation RebindingBinding::begin_take_over(Block& block, Block& fresh) {
  if (fresh.holder != nullptr) holders_.forget(fresh);
  places_.hand_over(fresh, block);
  return begin_bind(block, {{std::exchange(fresh.data, nullptr), fresh.charged}}, Access::kWrite);
}

void RebindingBinding::discard(Block& block, std::span<const Piece> pieces) noexcept {
  places_.give_back(block);
  memory_->close(pieces.front().at);
}

void RebindingBinding::make_writable(Block& block) {
  if (poison_) memory_->protect(block.data, block.charged, Protection::kWritable);
}

}  // namespace tensorpager::memory
