// One range of bytes that blocks of all sizes share, each in one piece: the arena of the rebinding binding, exactly as
// large as the budget. It knows numbers only. Slab chunks, which never move, gather at the low end; blocks are placed
// from the high end, into the smallest gap that holds them. Where no gap does, `cheapest_run` says which neighbours
// would have to go.
//
//   0    slabs          gap      block   gap        block     limit
//   |####|####|.....................|======|......|============|
//
// Queries about gaps use an index. It is built from the pieces at the first query, updated at each change, and dropped
// after some changes without a query: a plan says itself where pieces go.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tensorpager/arena/gaps.h"
#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

/// Where room is made for a piece: at the lowest cost; or, for a piece that is fixed from now on, beside another fixed
/// one, so that it does not split a run that could be freed.
enum class Fit : std::uint8_t { kCheapest, kBesideFixed };

class Region {
 public:
  /// `granule` is a power of two; every size and offset is a multiple of it.
  explicit Region(base::Bytes granule) : granule_(granule) {}

  /// Sets the space to [0, limit). What is taken beyond stays so until it is given back.
  void set_limit(base::Bytes limit);
  base::Bytes limit() const { return base::Bytes(limit_); }
  /// Bytes [0, end) are for pieces that are put there; others go there only if there is no other gap, and below
  /// `strictly` only if no place can be made above.
  void keep_low(std::uint64_t end, std::uint64_t strictly = 0) {
    kept_low_ = rounded_down(end);
    strictly_low_ = rounded_down(strictly);
  }

  bool has_gap(base::Bytes size) const;
  /// Whether there would be such a gap if these bytes, which are free, were taken.
  bool has_gap_beside(std::uint64_t taken, base::Bytes taken_size, base::Bytes size) const;
  /// The offset of `size` bytes at the high end of the smallest gap that holds them; nullopt if none does, or one that
  /// is kept low strictly.
  std::optional<std::uint64_t> find_gap(base::Bytes size) const;
  /// The highest place for `size` bytes, a multiple of the granule, within [begin, end); nullopt if there is none.
  std::optional<std::uint64_t> find_gap_within(std::uint64_t begin, std::uint64_t end, base::Bytes size) const;
  /// The offsets of the pieces in [begin, begin + size).
  std::vector<std::uint64_t> pieces_in(std::uint64_t begin, base::Bytes size) const;
  /// Whether `is_so(offset)` holds for each of them.
  template <typename IsSo>
  bool all_pieces_in(std::uint64_t begin, base::Bytes size, IsSo&& is_so) const {
    for (auto piece = first_piece_in(begin); piece != taken_.end() && piece->first < begin + size.count(); ++piece)
      if (!is_so(piece->first)) return false;
    return true;
  }
  /// Takes free bytes; it is a bug if they are not.
  void take(std::uint64_t offset, base::Bytes size);
  /// Gives back the piece at this offset. Any other offset is a bug and fails a check.
  void give_back(std::uint64_t offset);

  /// The cost to empty the taken piece at an offset; nullopt if that cannot be.
  using Cost = std::function<std::optional<double>(std::uint64_t offset, base::Bytes size)>;
  /// A place, and the offsets of the pieces to give back before it is free.
  struct Run {
    std::uint64_t offset = 0;
    std::vector<std::uint64_t> to_remove;
  };
  /// The run of neighbours whose summed cost is least, in what is kept low only if there is none above; nullopt if
  /// there is none.
  std::optional<Run> cheapest_run(base::Bytes size, Fit fit, const Cost& cost) const;
  /// The largest run of bytes without a piece that cannot be emptied.
  base::Bytes largest_run(const Cost& cost) const;

  enum class Piece : std::uint8_t { kFixed, kMovable, kRemovable };
  struct Slide {
    std::uint64_t from, to;
  };
  struct Compaction {
    std::vector<std::uint64_t> to_remove;  // offsets of removable pieces that are in the way
    std::vector<Slide> slides;             // in an order in which no slide overwrites what is yet to slide
    base::Bytes largest_run;               // afterwards, if all that is removable went
  };
  /// What it takes to gather the movable pieces at the low end of each run between fixed ones.
  Compaction compaction(const std::function<Piece(std::uint64_t offset)>& kind) const;
  void slide(const Slide& slide);  // the bookkeeping; the caller moves the bytes

  /// The offsets of the pieces that reach beyond the limit.
  std::vector<std::uint64_t> beyond_limit() const;
  base::Bytes taken() const { return taken_bytes_; }

 private:
  /// [begin, end), taken or not.
  struct Span {
    std::uint64_t begin, end;
    bool taken;
  };
  std::vector<Span> spans() const;
  std::map<std::uint64_t, std::uint64_t>::const_iterator first_piece_in(std::uint64_t begin) const;
  /// The run that covers [begin, begin + size) if all in it can be removed for less than `best`, which is set.
  std::optional<Run> run_at(const std::vector<Span>& spans, const std::vector<std::optional<double>>& costs,
                            std::uint64_t begin, base::Bytes size, double& best) const;
  /// Whether [begin, end) holds `size` bytes above what is kept low.
  bool fits(std::uint64_t begin, std::uint64_t end, base::Bytes size) const;
  std::uint64_t rounded_down(std::uint64_t offset) const { return offset / granule_.count() * granule_.count(); }
  std::optional<std::uint64_t> find_gap_above(std::uint64_t least, base::Bytes size) const;
  const Gaps& gaps() const;
  /// Whether the index must be told of a change.
  bool keeps_gaps();

  base::Bytes granule_;
  base::Bytes taken_bytes_;
  std::uint64_t limit_ = 0;
  std::uint64_t kept_low_ = 0, strictly_low_ = 0;
  std::map<std::uint64_t, std::uint64_t> taken_;  // offset -> size
  mutable std::optional<Gaps> gaps_;              // below the limit; nullopt: no query came for some time
  mutable int changes_unasked_ = 0;
};

}  // namespace tensorpager::arena
