// A binding without memory: blocks have an offset in an arena of exactly the budget, and are charged. Addresses are
// only names and never accessed. As on a device whose copies are ordered by events, a page-in may be queued behind the
// page-out that frees its place.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/region.h"
#include "tensorpager/pager/binding.h"

namespace tensorpager::sim {

class BookkeepingBinding final : public pager::Binding {
 public:
  /// Unplanned blocks are placed in [reserve_begin, reserve_end) if there is room.
  BookkeepingBinding(arena::AddressSpace& space, base::Bytes granule, base::Bytes reserve_begin,
                     base::Bytes reserve_end);

  /// Sets the offset of the next block for which no place is asked.
  void place_next_at(std::uint64_t offset) { next_if_unsaid_ = offset; }

  base::Bytes charge_for(base::Bytes size) const override { return base::round_up(size, granule_); }
  std::byte* acquire(base::Bytes charged, base::Bytes pool_allowance) override;
  std::byte* acquire_slab_chunk(base::Bytes size, base::Bytes pool_allowance) override;
  void release(pager::Block& block) noexcept override;
  void begin_page_out(pager::Block&) override {}
  void cancel_page_out(pager::Block&) noexcept override {}
  pager::Relocation begin_unbind(pager::Block& block) override {
    leave(block.data);
    return {.way = pager::Relocation::Way::kOut};
  }
  bool may_unbind() override { return true; }
  std::vector<arena::Piece> stage(pager::Block& block, base::Bytes pool_allowance) override;
  pager::Relocation begin_bind(pager::Block&, std::vector<arena::Piece>, pager::Access) override {
    return {.way = pager::Relocation::Way::kIn};
  }
  void discard(std::span<const arena::Piece> pieces) noexcept override;
  void make_writable(pager::Block&) override {}
  void poison(bool) override {}
  void trim_pool(base::Bytes) override {}
  base::Bytes pooled() const override { return {}; }
  std::uint64_t system_calls() const override { return 0; }

  bool is_placed() const override { return true; }
  bool passes_places_on() const override { return true; }
  using pager::Binding::offset_of;
  std::uint64_t offset_of(const std::byte* data) const override { return offsets_.at(data); }
  void leave_place_to(pager::Block& old, pager::Block& block) override;
  std::vector<pager::Block*> set_limit(base::Bytes budget) override;
  std::optional<std::vector<pager::Block*>> in_the_way(const pager::Wanted& wanted, std::uint64_t now) override;
  base::Bytes largest_run(std::uint64_t now) const override { return region_.largest_run(cost(now)); }

 private:
  struct Place {
    base::Bytes bytes;
    std::byte* name;
  };
  pager::Block* evictable_at(std::uint64_t offset) const;
  arena::Region::Cost cost(std::uint64_t now) const;
  std::optional<std::vector<pager::Block*>> in_the_way_at(std::uint64_t offset, base::Bytes bytes) const;
  std::byte* make_name(base::Bytes bytes);
  void settle(std::byte* name, base::Bytes bytes);
  void leave(std::byte* name);

  arena::AddressSpace& space_;
  base::Bytes granule_;
  std::uint64_t reserve_begin_, reserve_end_;
  arena::Region region_;
  std::map<std::uint64_t, Place> places_;  // by offset
  std::unordered_map<const std::byte*, std::uint64_t> offsets_;
  std::uint64_t next_place_ = 0;
  std::optional<std::uint64_t> next_if_unsaid_;
};

}  // namespace tensorpager::sim
