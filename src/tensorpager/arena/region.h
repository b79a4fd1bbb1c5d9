// One range of bytes that blocks of all sizes share, each in one piece: the arena of the rebinding binding, exactly as
// large as the budget. It knows numbers only. Slab chunks, which never move, gather at the low end; blocks are placed
// from the high end, into the smallest gap that holds them. Where no gap does, `cheapest_run` says which neighbours
// would have to go.
//
//   0    slabs          gap      block   gap        block     limit
//   |####|####|.....................|======|......|============|
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

enum class End : std::uint8_t { kLow, kHigh };

class Region {
 public:
  /// `granule` is a power of two; every size and offset is a multiple of it.
  explicit Region(base::Bytes granule) : granule_(granule) {}

  /// Space [0, limit) from now on. What is taken beyond stays so until it is given back.
  void set_limit(base::Bytes limit);
  base::Bytes limit() const { return base::Bytes(limit_); }

  /// The offset of `size` bytes, now taken; nothing where no gap holds them. kHigh: in the smallest gap that does;
  /// kLow: in the lowest. `alignment` is a power of two, at least the granule.
  std::optional<std::uint64_t> take(base::Bytes size, base::Bytes alignment, End end);
  bool has_gap(base::Bytes size, base::Bytes alignment) const;
  /// Gives back what was taken there. Any other offset is a bug and fails a check.
  void give_back(std::uint64_t offset);

  /// What it costs to empty the taken piece at an offset; nothing where that cannot be.
  using Cost = std::function<std::optional<double>(std::uint64_t offset, base::Bytes size)>;
  /// The offsets of the pieces to give back so that `size` bytes fit: neighbours, of the least summed cost (kHigh) or
  /// the lowest addresses (kLow). Empty where a gap is there already; nothing where no run would do.
  std::optional<std::vector<std::uint64_t>> cheapest_run(base::Bytes size, base::Bytes alignment, End end,
                                                         const Cost& cost) const;
  /// The largest run of bytes without a piece that cannot be emptied.
  base::Bytes largest_run(const Cost& cost) const;

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
  std::uint64_t aligned(std::uint64_t offset, base::Bytes alignment) const;
  void add_gap(std::uint64_t begin, std::uint64_t end);
  void remove_gap(std::uint64_t begin, std::uint64_t end);

  base::Bytes granule_;
  base::Bytes taken_bytes_;
  std::uint64_t limit_ = 0;
  std::map<std::uint64_t, std::uint64_t> taken_;           // offset -> size
  std::map<std::uint64_t, std::uint64_t> gaps_;            // begin -> end, all below the limit
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, begin) of the same gaps
};

}  // namespace tensorpager::arena
