// Populated memory that no block uses now: charged, readable and writable, and given out again without zeroing. Freed
// blocks leave their range here and the next block of that size takes it as it is, so a steady state makes no system
// call; evicted blocks leave their pages here, which are moved under the block that comes next. It keeps the books
// only: moving and unmapping are done by the binding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

/// Some pages, where they are mapped now.
struct Piece {
  std::byte* at = nullptr;
  base::Bytes bytes;
};

class PagePool {
 public:
  void put(Piece piece);

  /// The range put last of exactly this size; null where there is none.
  std::byte* take_exact(base::Bytes size);

  /// Up to `limit` pieces that add up to at most `size`. Larger pieces are cut; what is asked in huge pages is answered
  /// in them where there are some, so that they stay whole.
  std::vector<Piece> take_up_to(base::Bytes size, std::size_t limit);

  /// Exactly `size`, of the smallest piece that covers it; nothing where none does. From 2 MiB on the end of a larger
  /// piece is taken that lets it begin with a huge page.
  std::optional<Piece> take_covering(base::Bytes size);

  /// Makes one piece of neighbours in memory: of those that cover `size` with the least to spare; where none do, of
  /// all. Only where memory can be moved across the places where they meet.
  void coalesce(base::Bytes size);

  /// The piece put longest ago, for giving its pages back to the machine.
  std::optional<Piece> take_oldest();

  base::Bytes bytes() const { return bytes_; }
  std::size_t pieces() const { return records_.size() - free_records_.size(); }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  /// A piece on two doubly linked lists: all pieces by age, and those of its size.
  struct Record {
    Piece piece;
    Index older = kNone, newer = kNone;
    Index below = kNone, above = kNone;
  };
  using Buckets = std::map<base::Bytes, Index>;  // size -> newest record of that size, kNone if none is left

  Piece remove(Buckets::iterator bucket, Index index);
  /// The bucket of the smallest pieces of at least `size`; the end where there are none.
  Buckets::iterator covering(base::Bytes size);
  /// `size` of a piece, at one of its ends; the rest is put back.
  Piece cut(const Piece& piece, base::Bytes size, bool from_end);
  /// One piece of at most `size`, out of those of at least `least`: the smallest that covers it, cut; else the largest
  /// there is.
  std::optional<Piece> take_one(base::Bytes size, base::Bytes least);
  /// Makes one piece of neighbours.
  void join(std::span<const Piece> run);
  void forget_empty_buckets();

  base::Bytes bytes_;
  std::vector<Record> records_;
  std::vector<Index> free_records_;
  Index oldest_ = kNone, newest_ = kNone;
  Buckets buckets_;
};

}  // namespace tensorpager::arena
