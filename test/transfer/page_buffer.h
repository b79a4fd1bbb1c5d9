// Page-aligned memory whose contents follow from a seed, so that what comes back is checked without keeping a copy.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "tensorpager/base/bytes.h"

namespace tensorpager::transfer {

class PageBuffer {
 public:
  explicit PageBuffer(base::Bytes size)
      : size_(size.count()), memory_(static_cast<std::byte*>(std::aligned_alloc(base::kPage.count(), size_))) {
    std::memset(memory_.get(), 0xEE, size_);
  }
  PageBuffer(base::Bytes size, std::uint64_t seed) : PageBuffer(size) {
    for (std::size_t i = 0; i < size_; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = word_at(seed, i);
      std::memcpy(memory_.get() + i, &word, sizeof word);
    }
  }

  std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  std::span<std::byte> part(base::Bytes at, base::Bytes size) { return bytes().subspan(at.count(), size.count()); }

  bool holds(std::uint64_t seed) const {
    for (std::size_t i = 0; i < size_; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = word_at(seed, i);
      if (std::memcmp(memory_.get() + i, &word, sizeof word) != 0) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  /// Differs from seed to seed and from place to place.
  static std::uint64_t word_at(std::uint64_t seed, std::size_t place) {
    const std::uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15 + place * 0xBF58476D1CE4E5B9;
    return mixed ^ (mixed >> 31);
  }

  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace tensorpager::transfer
