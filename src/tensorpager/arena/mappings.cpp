#include "tensorpager/arena/mappings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tensorpager::arena {
namespace {

constexpr std::uint64_t kUsualLimit = 65530;  // Linux' default of vm.max_map_count

std::uint64_t kernel_limit() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::uint64_t limit = 0;
  return file >> limit ? limit : kUsualLimit;
}

}  // namespace

Mappings::Mappings() : Mappings(kernel_limit()) {}

Mappings::Mappings(std::uint64_t limit) : limit_(limit), bound_(count_now()) {}

bool Mappings::has_room_for(std::uint64_t count) {
  const std::uint64_t usable = limit_ - limit_ / 10;
  if (bound_ + count <= usable) return true;
  bound_ = count_now();
  return bound_ + count <= usable;
}

std::uint64_t Mappings::count_now() {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::uint64_t lines = 0;
  char buffer[4096];
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;)
    lines += static_cast<std::uint64_t>(std::count(buffer, buffer + n, '\n'));
  close(file);
  return lines;
}

}  // namespace tensorpager::arena
