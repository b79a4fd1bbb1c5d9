// Where one mapping may end and another begin, inside memory that we treat as one piece or where two pieces meet.
// Before Linux 6.17 a move must not cross such a place, so a move is made in parts. A seam too many costs a call; one
// too few would be a failed move. Later kernels need them only to tell how many mappings a piece has; there two pieces
// of fresh memory that meet may be two mappings and yet have no seam.
//
// Every block that is freed asks whether there are any inside, so they are bits, one a page, 64 in a word; words
// without any are not kept.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tensorpager/base/bytes.h"

namespace tensorpager::arena {

class Seams {
 public:
  /// Places are at the begin of a page.
  void add(const std::byte* at) { words_[page_of(at) / kBits] |= bit_of(page_of(at)); }

  /// Calls visit(offset, bytes) for each part of the range that has no seam inside, in order.
  template <typename Visit>
  void for_each_part(const std::byte* begin, base::Bytes size, Visit&& visit) const {
    std::size_t part = 0;
    const auto end_part = [&](std::size_t end) {
      visit(part, base::Bytes(end - part));
      part = end;
    };
    for_each(page_of(begin) + 1, page_of(begin + size.count()),
             [&](std::uint64_t page) { end_part((page - page_of(begin)) * base::kPage.count()); });
    if (part < size.count()) end_part(size.count());
  }

  std::size_t inside(const std::byte* begin, base::Bytes size) const {
    std::size_t count = 0;
    for_each(page_of(begin) + 1, page_of(begin + size.count()), [&](std::uint64_t) { ++count; });
    return count;
  }

  /// The seams inside go where the memory went, and take the place of those there. Those at the ends stay.
  void move(const std::byte* from, base::Bytes size, const std::byte* to) {
    std::vector<const std::byte*> moved;
    for_each(page_of(from) + 1, page_of(from + size.count()),
             [&](std::uint64_t page) { moved.push_back(to + (page - page_of(from)) * base::kPage.count()); });
    forget(from, size);
    forget(to, size);
    for (const std::byte* at : moved) add(at);
  }

  /// The range is one mapping again. The seams at its ends stay, as its neighbours' ends.
  void forget(const std::byte* begin, base::Bytes size) {
    for_each_word(page_of(begin) + 1, page_of(begin + size.count()), [&](std::uint64_t key, std::uint64_t mask) {
      const auto word = words_.find(key);
      if (word == words_.end()) return;
      word->second &= ~mask;
      if (word->second == 0) words_.erase(word);
    });
  }

  std::size_t size() const {
    std::size_t count = 0;
    for (const auto& [key, word] : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }

 private:
  static constexpr std::uint64_t kBits = 64;

  static std::uint64_t page_of(const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) / base::kPage.count();
  }
  static std::uint64_t bit_of(std::uint64_t page) { return std::uint64_t{1} << page % kBits; }

  /// visit(key, mask) for the words that have bits of these pages.
  template <typename Visit>
  static void for_each_word(std::uint64_t begin, std::uint64_t end, Visit&& visit) {
    while (begin < end) {
      const std::uint64_t next = std::min(end, (begin / kBits + 1) * kBits);
      const std::uint64_t up_to = next % kBits == 0 ? ~std::uint64_t{0} : bit_of(next) - 1;
      visit(begin / kBits, up_to & ~(bit_of(begin) - 1));
      begin = next;
    }
  }

  /// visit(page) for the seams at pages [begin, end), in order.
  template <typename Visit>
  void for_each(std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
    if (words_.empty()) return;
    for_each_word(begin, end, [&](std::uint64_t key, std::uint64_t mask) {
      const auto word = words_.find(key);
      if (word == words_.end()) return;
      for (std::uint64_t bits = word->second & mask; bits != 0; bits &= bits - 1)
        visit(key * kBits + static_cast<std::uint64_t>(std::countr_zero(bits)));
    });
  }

  std::unordered_map<std::uint64_t, std::uint64_t> words_;  // by page / kBits
};

}  // namespace tensorpager::arena
