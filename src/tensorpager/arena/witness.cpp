#include "tensorpager/arena/witness.h"

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace tensorpager::arena {

base::Bytes resident_size(const std::byte* begin, const std::byte* end) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/smaps", "re"), &std::fclose);
  if (!file) return base::Bytes(0);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const auto last = reinterpret_cast<std::uintptr_t>(end);
  std::uint64_t kibibytes = 0;
  bool ours = false;
  char line[512];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long from = 0, to = 0, rss = 0;
    const bool is_field = std::isupper(static_cast<unsigned char>(line[0])) != 0;  // of the mapping before it
    if (!is_field && std::sscanf(line, "%lx-%lx ", &from, &to) == 2)
      ours = from >= first && to <= last;
    else if (is_field && ours && std::sscanf(line, "Rss: %lu kB", &rss) == 1)
      kibibytes += rss;
  }
  return base::Bytes(kibibytes * 1024);
}

}  // namespace tensorpager::arena
