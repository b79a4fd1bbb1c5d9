// Compares the bytes of a result with those of two replays, whose fresh memory was filled with two different bytes. A
// byte that kept both fills was never written: it is undefined, and what the result holds there does not matter. Any
// other byte that is not the same in all three is a difference; also one in which only the replays differ, since an op
// that makes it so is no function of its arguments.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

namespace tensorpager::replay {

inline constexpr std::byte kFirstFill{0xFF};
inline constexpr std::byte kSecondFill{0x55};

struct ByteDifference {
  std::size_t bytes = 0;     // that differ
  std::size_t first = 0;     // where the first of them is
  std::size_t unstable = 0;  // of bytes, those that differ between the replays

  bool operator==(const ByteDifference&) const = default;
};

/// The three must have one size. Returns nullopt if nothing that was written differs.
inline std::optional<ByteDifference> compare_bytes(std::span<const std::byte> result, std::span<const std::byte> first,
                                                   std::span<const std::byte> second) {
  if (result.empty() || (std::memcmp(result.data(), first.data(), result.size()) == 0 &&
                         std::memcmp(result.data(), second.data(), result.size()) == 0))
    return std::nullopt;
  ByteDifference difference;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool is_undefined = first[i] == kFirstFill && second[i] == kSecondFill;
    if (is_undefined || (result[i] == first[i] && result[i] == second[i])) continue;
    if (difference.bytes++ == 0) difference.first = i;
    difference.unstable += first[i] != second[i];
  }
  return difference.bytes > 0 ? std::optional(difference) : std::nullopt;
}

}  // namespace tensorpager::replay
