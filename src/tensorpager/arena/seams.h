// Where one mapping may end and another begin inside memory that we treat as one piece. Before Linux 6.17 a move must
// not cross such a place, so a move is made in parts. A seam too many costs a call; one too few would be a failed move.
#pragma once

#include <cstddef>
#include <iterator>
#include <set>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

class Seams {
 public:
  void add(const std::byte* at) { places_.insert(at); }

  /// Calls visit(offset, bytes) for each part of the range that has no seam inside, in order.
  template <typename Visit>
  void for_each_part(const std::byte* begin, base::Bytes size, Visit&& visit) const {
    const std::byte* const end = begin + size.count();
    const std::byte* part = begin;
    for (auto seam = places_.upper_bound(begin); part < end; ++seam) {
      const std::byte* const next = seam != places_.end() && *seam < end ? *seam : end;
      visit(static_cast<std::size_t>(part - begin), base::Bytes(static_cast<std::size_t>(next - part)));
      part = next;
      if (seam == places_.end()) break;
    }
  }

  std::size_t inside(const std::byte* begin, base::Bytes size) const {
    return static_cast<std::size_t>(
        std::distance(places_.upper_bound(begin), places_.lower_bound(begin + size.count())));
  }

  /// The seams inside go where the memory went.
  void move(const std::byte* from, base::Bytes size, const std::byte* to) {
    const auto first = places_.upper_bound(from);
    const auto last = places_.lower_bound(from + size.count());
    std::vector<const std::byte*> moved;  // first: a new place may lie before `last`
    for (auto seam = first; seam != last; ++seam) moved.push_back(to + (*seam - from));
    forget(from, size);
    places_.insert(moved.begin(), moved.end());
  }

  /// The range is one mapping again.
  void forget(const std::byte* begin, base::Bytes size) {
    places_.erase(places_.lower_bound(begin), places_.upper_bound(begin + size.count()));
  }

  std::size_t size() const { return places_.size(); }

 private:
  std::set<const std::byte*> places_;
};

}  // namespace tensorpager::arena
