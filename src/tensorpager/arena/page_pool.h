// Populated memory that no block uses now: charged, readable and writable, and given out again without zeroing. Freed
// blocks leave their range here and the next block of that size takes it as it is, so a steady state makes no system
// call; evicted blocks leave their pages here, which are moved under the block that comes next. It keeps the books
// only: moving and unmapping are done by the binding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  /// One piece of at most `size`, out of those of at least `least`: the smallest that covers it, cut; else the largest
  /// there is.
  std::optional<Piece> take_one(base::Bytes size, base::Bytes least);
  void forget_empty_buckets();

  base::Bytes bytes_;
  std::vector<Record> records_;
  std::vector<Index> free_records_;
  Index oldest_ = kNone, newest_ = kNone;
  Buckets buckets_;
};

}  // namespace tensorpager::arena
