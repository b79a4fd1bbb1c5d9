// Populated memory that no block uses now: charged, readable and writable, and given out again without zeroing. Freed
// blocks leave their range here and the next block of that size takes it as it is, so a steady state makes no system
// call; evicted blocks leave their pages here, which are moved under the block that comes next. It only does the
// bookkeeping: the binding moves and unmaps.
//
// If the machine has huge pages, those of large blocks are kept whole: a TLB that is flushed, as each move on another
// core makes it, is filled again from a few huge pages in no time, and from small ones in some 100 us. So there are two
// kinds of pieces: those that begin with a huge page, and small pieces. A request in huge pages is not answered in
// small pieces, and a huge page is split into small pieces only if there are none.
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
  struct Options {
    bool has_huge_pages = true;
    bool joins = true;            // neighbours; only if memory can be moved across the places where they meet
    std::size_t most_pieces = 8;  // of one answer
  };

  PagePool() : PagePool(Options{}) {}
  explicit PagePool(const Options& options) : options_(options) {}

  void put(Piece piece) { put(piece, is_huge(piece)); }

  /// The range put last of exactly this size; null if there is none.
  std::byte* take_exact(base::Bytes size);

  /// Pieces that add up to at most `size`: one if one covers it or neighbours do, else several, of which those that are
  /// huge pages come first. What is missing to a size in huge pages is best taken fresh, in huge pages.
  std::vector<Piece> gather(base::Bytes size);

  /// A piece for giving its pages back to the machine: the oldest small piece, else the end of the oldest, of about
  /// `wanted` bytes.
  std::optional<Piece> take_oldest(base::Bytes wanted);

  base::Bytes bytes() const { return bytes_; }
  std::size_t pieces() const { return records_.size() - free_records_.size(); }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  /// A piece on two doubly linked lists: all pieces of its kind by age, and those of its size.
  struct Record {
    Piece piece;
    Index older = kNone, newer = kNone;
    Index below = kNone, above = kNone;
  };
  using Buckets = std::map<base::Bytes, Index>;  // size -> newest record of that size, kNone if none is left
  struct Kind {
    Buckets buckets;
    Index oldest = kNone, newest = kNone;
    base::Bytes bytes;
  };

  bool is_huge(const Piece& piece) const;
  Kind& kind_for(base::Bytes size) { return size < base::kHugePage || !options_.has_huge_pages ? small_ : huge_; }
  void put(Piece piece, bool as_huge);
  Piece remove(Kind& kind, Buckets::iterator bucket, Index index);
  Piece remove_newest(Kind& kind, Buckets::iterator bucket) { return remove(kind, bucket, bucket->second); }
  /// The bucket of the smallest pieces of at least `size`, or of the largest; the end if there are none.
  static Buckets::iterator covering(Kind& kind, base::Bytes size);
  static Buckets::iterator largest(Kind& kind);
  /// Takes exactly `size` from the smallest piece that covers it.
  std::optional<Piece> take_covering(Kind& kind, base::Bytes size);
  std::optional<Piece> take_after_huge_pages(base::Bytes size);
  void gather_huge(base::Bytes size, std::vector<Piece>& pieces);
  void gather_small(base::Bytes size, std::vector<Piece>& pieces);
  Piece cut_front(const Piece& piece, base::Bytes size, bool as_huge);
  Piece cut_end(const Piece& piece, base::Bytes size, bool as_huge);
  /// Makes one small piece of neighbours in memory: of those that cover `size` with the least to spare; if none do, of
  /// all.
  void coalesce(base::Bytes size);
  void join(std::span<const Piece> run);
  static void forget_empty_buckets(Kind& kind);

  const Options options_;
  base::Bytes bytes_;
  std::vector<Record> records_;
  std::vector<Index> free_records_;
  Kind small_, huge_;
};

}  // namespace tensorpager::arena
