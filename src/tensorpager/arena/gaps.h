// Ranges of free bytes, no two of which touch, by their place and by their size. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace tensorpager::arena {

class Gaps {
 public:
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // (size, begin)
  using ByBegin = std::map<std::uint64_t, std::uint64_t>;            // begin -> end

  const BySize& by_size() const { return by_size_; }
  const ByBegin& by_begin() const { return by_begin_; }

  /// Adds [begin, end), which touches no other gap; nothing if it is empty.
  void add(std::uint64_t begin, std::uint64_t end);
  /// Takes [begin, end), which is part of one gap, out of it.
  void take(std::uint64_t begin, std::uint64_t end);
  /// Gives [begin, end) back, none of which is in a gap: it is joined with the gaps that it touches. Nothing if it is
  /// empty.
  void give_back(std::uint64_t begin, std::uint64_t end);

 private:
  void remove(ByBegin::iterator gap);

  ByBegin by_begin_;
  BySize by_size_;
};

}  // namespace tensorpager::arena
