#include "tensorpager/arena/kernel_moves.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace tensorpager::arena {
namespace {

using base::Bytes;
using base::kPage;

/// Bytes of the pages at the begin of the range that hold nothing, in memory or in swap; nullopt if /proc is missing.
std::optional<Bytes> empty_at_begin(const std::byte* at, Bytes size) {
  constexpr std::uint64_t kHeld = std::uint64_t{3} << 62;  // present, or in swap
  std::vector<std::uint64_t> entries(size.count() / kPage.count());
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const std::size_t bytes = entries.size() * sizeof entries[0];
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(at) / kPage.count() * sizeof entries[0];
  const ssize_t got = pread(file, entries.data(), bytes, static_cast<off_t>(first));
  close(file);
  if (got != static_cast<ssize_t>(bytes)) return std::nullopt;
  const auto held = std::ranges::find_if(entries, [](std::uint64_t entry) { return (entry & kHeld) != 0; });
  return Bytes(static_cast<std::uint64_t>(held - entries.begin()) * kPage.count());
}

bool moves_two_mappings(std::byte* from, std::byte* to) {
  constexpr Bytes kBoth(2 * kPage.count());
  std::byte* second = from + kPage.count();
  if (mprotect(from, kBoth.count(), PROT_READ | PROT_WRITE) != 0) return false;
  *from = std::byte{1};
  *second = std::byte{2};
  if (mprotect(second, kPage.count(), PROT_READ) != 0) return false;  // a mapping of its own from here on
  if (empty_at_begin(from, kBoth) != Bytes(0)) return false;
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (mremap(from, kBoth.count(), kBoth.count(), kFlags, to) != to) return false;
  return empty_at_begin(from, kBoth) == kBoth && to[0] == std::byte{1} && to[kPage.count()] == std::byte{2};
}

}  // namespace

bool kernel_moves_across_mappings() {
  constexpr std::uint64_t kBytes = 4 * kPage.count();
  void* at = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  auto* from = static_cast<std::byte*>(at);
  const bool moves = moves_two_mappings(from, from + kBytes / 2);
  munmap(at, kBytes);
  return moves;
}

Bytes moved_before_failure(const std::byte* from, Bytes size) { return empty_at_begin(from, size).value_or(Bytes(0)); }

}  // namespace tensorpager::arena
