// The rebinding binding: all blocks share one arena of exactly the budget, and a block may be paged in at another
// address, so whatever the program finds it by (a storage) is notified of the new one. A device uses it; on the CPU it
// proves, with real numerics, that everything the program does goes through ops and guarded accessors.
//
// A block can be evicted once a storage has claimed it. Until then its address is all that anybody knows of it: scratch
// memory, or a tensor that its op has not returned yet.
#pragma once

#include <memory>
#include <vector>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/memory/arena_memory.h"
#include "tensorpager/pager/placed_binding.h"

namespace tensorpager::memory {

/// Whether a block's place may be given to another while it is still copied from.
enum class PlaceReuse : std::uint8_t { kAfterCopy, kDuringCopy };

class RebindingBinding final : public pager::PlacedBinding {
 public:
  /// In the host's memory. Both must outlive this. Throws IoError if the arena's addresses cannot be had.
  RebindingBinding(arena::AddressSpace& space, pager::Holders& holders, PlaceReuse reuse = PlaceReuse::kAfterCopy);
  /// In this memory, of which `space` knows the addresses.
  RebindingBinding(arena::AddressSpace& space, pager::Holders& holders, std::unique_ptr<ArenaMemory> memory,
                   PlaceReuse reuse);

  base::Bytes charge_for(base::Bytes size) const override { return base::round_up(size, memory_->granule()); }
  std::byte* acquire(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  std::byte* acquire_slab_chunk(const arena::Place& place, base::Bytes pool_allowance) override;
  void release(pager::Block& block) noexcept override;
  void begin_page_out(pager::Block&) override {}
  pager::Relocation begin_unbind(pager::Block& block) override;
  std::vector<arena::Piece> stage(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  pager::Relocation begin_bind(pager::Block& block, std::vector<arena::Piece> pieces, pager::Access access) override;
  pager::Relocation begin_take_over(pager::Block& block, pager::Block& fresh) override;
  void discard(pager::Block& block, std::span<const arena::Piece> pieces) noexcept override;
  void make_writable(pager::Block& block) override;
  void poison(bool on) override { poison_ = on && memory_->can_be_poisoned(); }
  std::uint64_t system_calls() const override { return memory_->system_calls(); }

  bool passes_places_on() const override { return reuse_ == PlaceReuse::kDuringCopy; }
  device::ComputeQueues* compute_queues() override { return memory_->compute_queues(); }
  void move(pager::Block& block, const pager::Place& to) override;
  void leave_place_to(pager::Block& old, pager::Block& block) override;
  pager::Holders* holders() override { return &holders_; }

 private:
  void free_place(pager::Block& block) noexcept;

  arena::AddressSpace& space_;
  pager::Holders& holders_;
  std::unique_ptr<ArenaMemory> memory_;
  const PlaceReuse reuse_;
  bool poison_ = false;
};

}  // namespace tensorpager::memory
