// Free space in a line of bytes: a spill file, a range of addresses. Best fit, lowest address among equals; freed
// ranges are merged with free neighbours. It handles numbers only, not the bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensorpager/base/bytes.h"

namespace tensorpager::base {

class Extents {
 public:
  /// Space [0, limit). `granule` is a power of two; every size and offset is a multiple of it.
  Extents(Bytes limit, Bytes granule);

  /// Returns the offset of `size` bytes (rounded up to the granule), aligned to `alignment` (a power of two, at least
  /// the granule), or nullopt if no gap is large enough. Grows the used part only if no gap fits.
  std::optional<std::uint64_t> take(Bytes size, Bytes alignment);
  std::optional<std::uint64_t> take(Bytes size) { return take(size, granule_); }

  /// Frees [offset, offset + size). Freeing a range that is free already fails a check.
  void give_back(std::uint64_t offset, Bytes size);

  Bytes taken() const { return taken_; }                  // bytes in use now
  std::uint64_t top() const { return top_; }              // end of the last piece in use: the line may be cut here
  std::size_t gaps() const { return by_offset_.size(); }  // free pieces below top

 private:
  void insert_gap(std::uint64_t offset, std::uint64_t size);
  void erase_gap(std::map<std::uint64_t, std::uint64_t>::iterator gap);

  Bytes limit_;
  Bytes granule_;
  Bytes taken_;
  std::uint64_t top_ = 0;
  std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset -> size of each gap below top
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, offset) of the same gaps
};

}  // namespace tensorpager::base
