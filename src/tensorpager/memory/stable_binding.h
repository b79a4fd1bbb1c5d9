// The stable binding: a storage keeps its virtual address for life, and paging changes what is mapped there.
//
// Out: the pages move away, and are copied from there; another thread that touches the block meanwhile waits in the
// fault handler. In: bytes are read into pooled pages, which are then moved into place in one call each, so other
// threads see all of a page or none of it. An address we hold is unmapped, for the moment of a move, only where no mmap
// of another library can land; elsewhere it is made inaccessible first, and stays mapped.
#pragma once

#include <atomic>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/mappings.h"
#include "tensorpager/arena/page_pool.h"
#include "tensorpager/arena/seams.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/page_mover.h"

namespace tensorpager::memory {

class StableBinding : public pager::Binding, public pager::PageMover {
 public:
  /// The pages of a new block: populated, zeroed and kept for the next block; or, in a dry run, which touches few of
  /// them: mapped only when they are touched, zero, and given back with the block. Those are never paged.
  enum class Pages : std::uint8_t { kPopulated, kUntouched };

  explicit StableBinding(arena::AddressSpace& space, Pages pages = Pages::kPopulated);

  base::Bytes charge_for(base::Bytes size) const override { return base::round_up(size, base::kPage); }
  std::byte* acquire(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  std::byte* acquire_slab_chunk(const arena::Place& place, base::Bytes pool_allowance) override;
  void release(pager::Block& block) noexcept override;
  void begin_page_out(pager::Block& block) override;
  pager::Relocation begin_unbind(pager::Block& block) override;
  std::vector<arena::Piece> stage(pager::Block& block, const arena::Place& place, base::Bytes pool_allowance) override;
  pager::Relocation begin_bind(pager::Block& block, std::vector<arena::Piece> pieces, pager::Access access) override;
  pager::Relocation begin_take_over(pager::Block& block, pager::Block& fresh) override;
  void discard(pager::Block& block, std::span<const arena::Piece> pieces) noexcept override;
  void make_writable(pager::Block& block) override;
  void poison(bool on) override { poison_ = on; }
  std::uint64_t system_calls() const override { return system_calls_.load(std::memory_order_relaxed); }
  pager::PlacedBinding* placed() override { return nullptr; }
  pager::PageMover* page_mover() override { return this; }

  bool may_unbind() override;
  void relocate(const pager::Relocation& relocation) override;
  void end_relocation(const pager::Relocation& relocation) noexcept override;
  void cancel_relocation(const pager::Relocation& relocation) noexcept override;
  void trim_pool(base::Bytes allowance) override;
  base::Bytes pooled() const override { return pool_.bytes(); }
  base::Bytes populated() const override { return populated_; }

 private:
  void protect(std::byte* at, base::Bytes size, int protection);
  void populate(std::byte* at, base::Bytes size);
  arena::Piece take_fresh(base::Bytes size);
  /// The same pages as parts that the kernel moves in one call.
  std::vector<arena::Piece> in_parts(std::span<const arena::Piece> pieces) const;
  void note_moved(const std::byte* from, base::Bytes size, const std::byte* to);
  /// Moves one part, and leaves its place unmapped, or with empty pages. Returns false, with errno, if the kernel
  /// refuses and nothing has moved. Without bookkeeping.
  bool remap(std::byte* from, base::Bytes size, std::byte* to, int protection);
  /// Mappings that one block can add while it is moved out and in.
  std::uint64_t mappings_per_move() const { return most_seams_ + 10; }
  /// Moves parts, whose protection is given, side by side to `to`; the places they leave become inaccessible. Throws
  /// IoError if the first cannot be moved: then nothing has changed. Without bookkeeping.
  void assemble(std::span<const arena::Piece> parts, int protection, std::byte* to);
  /// Its bookkeeping; returns where they end.
  std::byte* note_assembled(std::span<const arena::Piece> pieces, std::byte* to);
  void pool_or_close(std::byte* at, base::Bytes size);
  void close(std::byte* at, base::Bytes size);
  /// Without bookkeeping.
  void make_inaccessible(std::byte* at, base::Bytes size);

  arena::AddressSpace& space_;
  const Pages pages_;
  const bool may_unmap_;          // for the moment of a move
  const bool moves_across_;       // whether the kernel moves several mappings in one call
  const std::size_t most_seams_;  // in memory that is moved; what has more is given back
  arena::Mappings mappings_;
  arena::PagePool pool_;
  arena::Seams seams_;
  std::uint32_t tight_births_ = 0;  // until fresh pages are tried again
  bool poison_ = false;
  std::atomic<std::uint64_t> system_calls_ = 0;
  base::Bytes populated_;
};

}  // namespace tensorpager::memory
