#include "tensorpager/memory/stable_binding.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tensorpager/arena/huge_pages.h"
#include "tensorpager/arena/kernel_moves.h"
#include "tensorpager/base/errors.h"

// Newer than Debian 12's headers may be missing these.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace tensorpager::memory {

using arena::Piece;
using base::Bytes;
using pager::Access;
using pager::Block;
using Way = pager::Relocation::Way;

namespace {

/// Pieces of one block: more would cost more calls than fresh pages do, and a mapping each.
constexpr std::size_t kMostPieces = 8;
/// Seams of one block if the kernel moves across them. Measured from 8 to 64: with more, fewer fresh pages are taken,
/// but beyond 16 the kernel's work for each mapping costs more than zeroing does.
constexpr std::size_t kMostSeams = 16;
/// After the pool had to give pages back, so many blocks are made of what it has before fresh pages are tried again:
/// else pages would be given back, taken again and zeroed whenever what is resident shrinks and grows.
constexpr std::uint32_t kTightBirths = 1 << 14;

bool is_well_aligned(const Piece& piece) {
  return piece.bytes < base::kHugePage || reinterpret_cast<std::uintptr_t>(piece.at) % base::kHugePage.count() == 0;
}

}  // namespace

StableBinding::StableBinding(arena::AddressSpace& space, Pages pages)
    : space_(space),
      pages_(pages),
      may_unmap_(space.is_apart()),
      moves_across_(arena::kernel_moves_across_mappings()),
      most_seams_(moves_across_ ? kMostSeams : kMostPieces),
      pool_({.has_huge_pages = arena::kernel_has_huge_pages(), .joins = moves_across_, .most_pieces = kMostPieces}) {}

void StableBinding::protect(std::byte* at, Bytes size, int protection) {
  ++system_calls_;
  if (mprotect(at, size.count(), protection) != 0) throw base::IoError("mprotect", "a block", size, errno);
}

void StableBinding::populate(std::byte* at, Bytes size) {
  if (pages_ == Pages::kUntouched) return protect(at, size, PROT_READ | PROT_WRITE);  // fresh from the range, or closed
  // Without MAP_NORESERVE, unlike the range around: see Note [Core files].
  system_calls_ += 3;
  populated_ += size;
  if (mmap(at, size.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
    throw base::IoError("mmap", "fresh memory", size, errno);
  seams_.forget(at, size);
  protect(at, size, PROT_READ | PROT_WRITE);
  if (size >= base::kHugePage) madvise(at, size.count(), MADV_HUGEPAGE);  // a hint: smaller pages do as well
  if (madvise(at, size.count(), MADV_POPULATE_WRITE) == 0) return;
  if (errno != EINVAL) {
    const int error = errno;
    close(at, size);
    throw base::IoError("madvise", "fresh memory", size, error);
  }
  // A kernel before 5.14: touch each page.
  for (std::uint64_t page = 0; page < size.count(); page += base::kPage.count())
    *reinterpret_cast<volatile char*>(at + page) = 0;
}

void StableBinding::close(std::byte* at, Bytes size) {
  make_inaccessible(at, size);
  seams_.forget(at, size);
}

void StableBinding::make_inaccessible(std::byte* at, Bytes size) {
  ++system_calls_;
  // One call takes the pages and the access away, and the mapping joins its inaccessible neighbours again.
  void* mapped = mmap(at, size.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  TENSORPAGER_CHECK(mapped == at);
}

bool StableBinding::remap(std::byte* from, Bytes size, std::byte* to, int protection) {
  const auto is_moved = [&](std::size_t begin, int more_flags) {
    ++system_calls_;
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | more_flags;
    const std::size_t bytes = size.count() - begin;
    return mremap(from + begin, bytes, bytes, flags, to + begin) == to + begin;
  };
  if (is_moved(0, may_unmap_ ? 0 : MREMAP_DONTUNMAP)) return true;
  if (errno != ENOMEM) return false;
  // With MREMAP_DONTUNMAP, under a tight RLIMIT_DATA, the kernel counts writable memory twice while it moves;
  // inaccessible memory it does not. Of several mappings the first ones may have gone: they must not be moved again,
  // over themselves.
  if (!may_unmap_) protect(from, size, PROT_NONE);
  const Bytes moved = moves_across_ ? arena::moved_before_failure(from, size) : Bytes(0);
  TENSORPAGER_CHECK(moved < size);
  if (may_unmap_) protect(from + moved.count(), size - moved, PROT_NONE);
  TENSORPAGER_CHECK(is_moved(moved.count(), MREMAP_DONTUNMAP));
  protect(to, size, protection);
  return true;
}

std::vector<Piece> StableBinding::in_parts(std::span<const Piece> pieces) const {
  if (moves_across_) return {pieces.begin(), pieces.end()};
  std::vector<Piece> parts;
  for (const Piece& piece : pieces)
    seams_.for_each_part(piece.at, piece.bytes, [&](std::size_t offset, Bytes part) {
      parts.push_back({piece.at + offset, part});
    });
  return parts;
}

void StableBinding::note_moved(const std::byte* from, Bytes size, const std::byte* to) {
  mappings_.add(seams_.inside(from, size) + 3);  // and one at each end of both places
  seams_.move(from, size, to);
  seams_.add(to);
  seams_.add(to + size.count());
  seams_.forget(from, size);
}

void StableBinding::assemble(std::span<const Piece> parts, int protection, std::byte* to) {
  for (const auto& [at, bytes] : parts) {
    if (!remap(at, bytes, to, protection)) {
      TENSORPAGER_CHECK(at == parts.front().at);
      throw base::IoError("mremap", "pages of a block", bytes, errno);
    }
    make_inaccessible(at, bytes);
    to += bytes.count();
  }
}

std::byte* StableBinding::note_assembled(std::span<const Piece> pieces, std::byte* to) {
  for (const Piece& piece : pieces) {
    note_moved(piece.at, piece.bytes, to);
    space_.give_back(piece.at, piece.bytes);
    to += piece.bytes.count();
  }
  return to;
}

void StableBinding::trim_pool(Bytes allowance) {
  while (pool_.bytes() > allowance) {
    tight_births_ = kTightBirths;
    const Piece piece = *pool_.take_oldest(pool_.bytes() - allowance);
    close(piece.at, piece.bytes);
    space_.give_back(piece.at, piece.bytes);
  }
}

std::byte* StableBinding::acquire(Block& block, const arena::Place&, Bytes pool_allowance) {
  const Bytes charged = block.charged;
  std::byte* at = pool_.take_exact(charged);
  if (at != nullptr) {
    trim_pool(pool_allowance);
    return at;
  }
  // While there is room for more, fresh pages: every size of the program's gets a range of its own, and later steps
  // make no system call.
  const bool is_tight = tight_births_ > 0 || pool_.bytes() > pool_allowance;
  if (tight_births_ > 0) --tight_births_;
  std::vector<Piece> pieces;
  if (is_tight) pieces = pool_.gather(charged);
  trim_pool(pool_allowance);
  if (pieces.empty()) return take_fresh(charged).at;
  // The block is where its pages are.
  if (pieces.size() == 1 && pieces[0].bytes == charged && is_well_aligned(pieces[0])) return pieces[0].at;
  at = space_.take(charged);
  try {
    assemble(in_parts(pieces), PROT_READ | PROT_WRITE, at);
  } catch (...) {
    space_.give_back(at, charged);
    discard(block, pieces);
    throw;
  }
  std::byte* const rest = note_assembled(pieces, at);
  if (rest == at + charged.count()) return at;
  try {
    populate(rest, charged - Bytes(static_cast<std::uint64_t>(rest - at)));
  } catch (...) {
    close(at, charged);
    space_.give_back(at, charged);
    throw;
  }
  return at;
}

Piece StableBinding::take_fresh(Bytes size) {
  const Piece fresh{space_.take(size), size};
  try {
    populate(fresh.at, fresh.bytes);
  } catch (...) {
    close(fresh.at, fresh.bytes);
    space_.give_back(fresh.at, fresh.bytes);
    throw;
  }
  return fresh;
}

std::byte* StableBinding::acquire_slab_chunk(const arena::Place& place, Bytes pool_allowance) {
  const Bytes size = place.bytes;
  trim_pool(pool_allowance);
  std::byte* at = space_.take_slab_chunk(size);
  try {
    populate(at, size);
  } catch (...) {
    close(at, size);
    space_.give_back(at, size);
    throw;
  }
  return at;
}

void StableBinding::release(Block& block) noexcept {
  const std::uint64_t state = block.state();
  if ((state & pager::kAbsent) != 0) {
    space_.give_back(block.data, block.charged);
    return;
  }
  if ((state & pager::kClean) != 0) protect(block.data, block.charged, PROT_READ | PROT_WRITE);
  pool_or_close(block.data, block.charged);
}

void StableBinding::pool_or_close(std::byte* at, Bytes size) {
  // Memory patched together from many pieces would cost much whenever it moves: give it back, to have it whole next
  // time.
  if (pages_ == Pages::kUntouched || seams_.inside(at, size) > most_seams_) {
    close(at, size);
    space_.give_back(at, size);
    return;
  }
  if (poison_) std::memset(at, pager::kPoison, size.count());
  pool_.put({at, size});
}

void StableBinding::begin_page_out(Block& block) { protect(block.data, block.charged, PROT_READ); }

pager::Relocation StableBinding::begin_unbind(Block& block) {
  const bool is_pooled = seams_.inside(block.data, block.charged) <= most_seams_;
  return {.way = Way::kOut,
          .from = in_parts(std::vector<Piece>{{block.data, block.charged}}),
          .to = is_pooled ? space_.take(block.charged) : nullptr,
          .mover = this};
}

bool StableBinding::may_unbind() { return mappings_.has_room_for(mappings_per_move()); }

std::vector<Piece> StableBinding::stage(Block& block, const arena::Place& place, Bytes pool_allowance) {
  std::vector<Piece> pieces = pool_.gather(place.bytes);
  Bytes missing = place.bytes;
  for (const Piece& piece : pieces) missing -= piece.bytes;
  trim_pool(pool_allowance);
  if (missing == Bytes(0)) return pieces;
  try {
    pieces.push_back(take_fresh(missing));
  } catch (...) {
    discard(block, pieces);
    throw;
  }
  return pieces;
}

pager::Relocation StableBinding::begin_bind(Block& block, std::vector<Piece> pieces, Access access) {
  return {.way = Way::kIn, .from = in_parts(pieces), .to = block.data, .access = access, .mover = this};
}

/// The address of `fresh` is given back with its pages.
pager::Relocation StableBinding::begin_take_over(Block& block, Block& fresh) {
  return begin_bind(block, {{std::exchange(fresh.data, nullptr), fresh.charged}}, Access::kWrite);
}

void StableBinding::relocate(const pager::Relocation& relocation) {
  const auto& [way, from, to, access, mover] = relocation;
  if (to == nullptr) {
    for (const Piece& piece : from) make_inaccessible(piece.at, piece.bytes);
    return;
  }
  // What a move leaves mapped must be inaccessible by then: its pages are empty.
  const bool is_closed_first = way == Way::kOut && !may_unmap_;
  const int during = is_closed_first ? PROT_NONE : access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  if (during != (PROT_READ | PROT_WRITE))
    for (const Piece& piece : from) protect(piece.at, piece.bytes, during);
  assemble(from, during, to);
  if (way == Way::kOut) protect(to, relocation.bytes(), PROT_READ | PROT_WRITE);
}

void StableBinding::end_relocation(const pager::Relocation& relocation) noexcept {
  const auto& [way, from, to, access, mover] = relocation;
  if (way == Way::kIn)
    note_assembled(from, to);
  else if (to == nullptr)
    seams_.forget(from.front().at, relocation.bytes());
  else
    note_moved(from.front().at, relocation.bytes(), to);  // and the block keeps its address
}

void StableBinding::cancel_relocation(const pager::Relocation& relocation) noexcept {
  if (relocation.way == Way::kOut) {
    if (relocation.to != nullptr) space_.give_back(relocation.to, relocation.bytes());
    return;
  }
  for (const Piece& piece : relocation.from) {
    close(piece.at, piece.bytes);
    space_.give_back(piece.at, piece.bytes);
  }
}

void StableBinding::discard(Block&, std::span<const Piece> pieces) noexcept {
  for (const Piece& piece : pieces) pool_or_close(piece.at, piece.bytes);
}

void StableBinding::make_writable(Block& block) { protect(block.data, block.charged, PROT_READ | PROT_WRITE); }

}  // namespace tensorpager::memory
