// The rebinding binding: all blocks share one arena of exactly the budget, and a block may be paged in at another
// address, so whatever the program finds it by (a storage) is notified of the new one. CUDA will use it; on the CPU it
// proves, with real numerics, that everything the program does goes through ops and guarded accessors.
//
// Slabs are at the arena's low end, and planned offsets are counted from its high end.
//
// A block can be evicted once a storage has claimed it. Until then its address is all that anybody knows of it: scratch
// memory, or a tensor that its op has not returned yet.
#pragma once

#include <vector>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/region.h"
#include "tensorpager/pager/binding.h"

namespace tensorpager::memory {

/// The object by which the program finds a block. Called with the pager's lock held.
class Holders {
 public:
  virtual ~Holders() = default;
  /// From now on notifies this holder where the block is. Returns false if it does not own the block.
  virtual bool claim(pager::Block& block, void* holder) = 0;
  /// Gives the resident block back to its holder as it was before the claim, so that it may hand the block on.
  virtual void give_up(pager::Block& block) = 0;
  /// Whether the block's holder still has it. A program may have moved it elsewhere.
  virtual bool has(const pager::Block& block) const = 0;
  /// Reports where the block's bytes are from now on; null: paged out, raw access raises.
  virtual void set_data(pager::Block& block, std::byte* data) = 0;
  /// The block died: its holder is not notified any more.
  virtual void forget(pager::Block& block) noexcept = 0;
};

/// Whether a block's place may be given to another while it is still copied from.
enum class PlaceReuse : std::uint8_t { kAfterCopy, kDuringCopy };

class RebindingBinding final : public pager::Binding {
 public:
  /// Both must outlive this. Throws IoError if the arena's addresses cannot be had.
  RebindingBinding(arena::AddressSpace& space, Holders& holders, PlaceReuse reuse = PlaceReuse::kAfterCopy);

  base::Bytes charge_for(base::Bytes size) const override { return base::round_up(size, base::kPage); }
  std::byte* acquire(base::Bytes charged, base::Bytes pool_allowance) override;
  std::byte* acquire_slab_chunk(base::Bytes size, base::Bytes pool_allowance) override;
  void release(pager::Block& block) noexcept override;
  void begin_page_out(pager::Block&) override {}
  void cancel_page_out(pager::Block&) noexcept override {}
  pager::Relocation begin_unbind(pager::Block& block) override;
  bool may_unbind() override { return true; }
  std::vector<arena::Piece> stage(pager::Block& block, base::Bytes pool_allowance) override;
  pager::Relocation begin_bind(pager::Block& block, std::vector<arena::Piece> pieces, pager::Access access) override;
  void discard(std::span<const arena::Piece> pieces) noexcept override;
  void make_writable(pager::Block& block) override;
  void poison(bool on) override { poison_ = on; }
  void trim_pool(base::Bytes) override {}
  base::Bytes pooled() const override { return base::Bytes(0); }
  std::uint64_t system_calls() const override { return system_calls_; }

  bool is_placed() const override { return true; }
  bool passes_places_on() const override { return reuse_ == PlaceReuse::kDuringCopy; }
  std::uint64_t offset_of(const std::byte* data) const override { return static_cast<std::uint64_t>(data - base_); }
  std::optional<std::uint64_t> offset_of(const pager::PlannedPlace& place) const override;
  void leave_place_to(pager::Block& old, pager::Block& block) override;
  std::vector<pager::Block*> set_limit(base::Bytes budget) override;
  std::optional<std::vector<pager::Block*>> in_the_way(const pager::Wanted& wanted, std::uint64_t now) override;
  void keep_for_plans(base::Bytes space) override { planned_ = space; }
  bool can_clear(const pager::PlannedPlace& place) const override;
  bool move_to(pager::Block& block, const pager::PlannedPlace& place) override;
  bool has_gap(base::Bytes bytes) const override { return region_.has_gap(bytes); }
  Gathering plan_gathering(std::span<pager::Block* const> movable) override;
  void gather(const Gathering& gathering) override;
  base::Bytes largest_run(std::uint64_t now) const override;
  bool claim(pager::Block& block, void* holder) override { return holders_.claim(block, holder); }
  void unclaim(pager::Block& block) override { holders_.give_up(block); }
  bool is_claimed(const pager::Block& block) const override { return holders_.has(block); }

 private:
  pager::Block* block_at(std::uint64_t offset) const;
  arena::Region::Cost cost(std::uint64_t now) const;
  std::optional<std::vector<pager::Block*>> in_the_way_at(std::uint64_t offset, base::Bytes bytes) const;
  std::optional<std::vector<pager::Block*>> in_the_way_of_slab(base::Bytes bytes, std::uint64_t end);
  void slide(pager::Block& block, const arena::Region::Slide& slide);
  void open(std::uint64_t begin, std::uint64_t end);
  std::byte* take_place(base::Bytes size);
  void give_back(std::byte* at);
  void keep_low();
  void protect(std::byte* at, base::Bytes size, int protection);

  arena::AddressSpace& space_;
  Holders& holders_;
  const PlaceReuse reuse_;
  base::Bytes range_;  // addresses that we hold; the region's limit is at most this
  std::byte* base_;
  std::vector<bool> is_open_;  // accessible, in steps of so many bytes from base_
  arena::Region region_{base::kPage};
  base::Bytes slabs_;             // in chunks, which gather at the low end as far as they can
  base::Bytes planned_;           // at the high end, for what plans place
  std::uint64_t next_place_ = 0;  // found by in_the_way
  bool poison_ = false;
  std::uint64_t system_calls_ = 0;
};

}  // namespace tensorpager::memory
