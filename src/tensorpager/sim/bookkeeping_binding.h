// A binding without memory: blocks have an offset in an arena of exactly the budget, and are charged. Addresses are
// only names and never accessed. As on a device whose copies are ordered by events, a page-in may be queued behind the
// page-out that frees its place.
#pragma once

#include "tensorpager/arena/address_space.h"
#include "tensorpager/pager/placed_binding.h"

namespace tensorpager::sim {

class BookkeepingBinding final : public pager::PlacedBinding {
 public:
  BookkeepingBinding(arena::AddressSpace& space, base::Bytes granule)
      : PlacedBinding(granule, base::kUnlimited), space_(space), granule_(granule) {}

  base::Bytes charge_for(base::Bytes size) const override { return base::round_up(size, granule_); }
  std::byte* acquire(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  std::byte* acquire_slab_chunk(const arena::Place& place, base::Bytes pool_allowance) override;
  void release(pager::Block& block) noexcept override;
  void begin_page_out(pager::Block&) override {}
  pager::Relocation begin_unbind(pager::Block& block) override {
    places_.give_back(block);
    return {.way = pager::Relocation::Way::kOut};
  }
  std::vector<arena::Piece> stage(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  pager::Relocation begin_bind(pager::Block&, std::vector<arena::Piece>, pager::Access) override {
    return {.way = pager::Relocation::Way::kIn};
  }
  pager::Relocation begin_take_over(pager::Block& block, pager::Block& fresh) override {
    places_.hand_over(fresh, block);
    return {.way = pager::Relocation::Way::kIn};
  }
  void discard(pager::Block& block, std::span<const arena::Piece>) noexcept override { places_.give_back(block); }
  void make_writable(pager::Block&) override {}
  void poison(bool) override {}
  std::uint64_t system_calls() const override { return 0; }

  bool passes_places_on() const override { return true; }
  device::ComputeQueues* compute_queues() override { return nullptr; }
  void move(pager::Block& block, const pager::Place& to) override { places_.move(block, to); }
  void leave_place_to(pager::Block& old, pager::Block& block) override;
  pager::Holders* holders() override { return nullptr; }

 private:
  std::byte* make_name(base::Bytes bytes);

  arena::AddressSpace& space_;
  base::Bytes granule_;
};

}  // namespace tensorpager::sim
