#include "tensorpager/base/bytes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr std::array kUnits = {Unit{"", 1},         Unit{"b", 1},        Unit{"kib", 0x1p10}, Unit{"mib", 0x1p20},
                               Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40}, Unit{"kb", 1e3},     Unit{"mb", 1e6},
                               Unit{"gb", 1e9},     Unit{"tb", 1e12}};

std::optional<double> bytes_of_unit(std::string_view name, Bytes whole) {
  if (name == "%") return static_cast<double>(whole.count()) / 100;
  const auto* unit = std::ranges::find(kUnits, name, &Unit::name);
  if (unit == kUnits.end()) return std::nullopt;
  return unit->bytes;
}

std::optional<Bytes> find_size(std::string_view text, Bytes whole) {
  if (text == "unlimited") return kUnlimited;
  // from_chars would take a sign, "nan" and "inf" too.
  if (text.empty() || !(text[0] == '.' || (text[0] >= '0' && text[0] <= '9'))) return std::nullopt;
  // long double keeps every count below 2^60 exact.
  long double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;

  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  if (name.size() > 1 && name[0] == ' ') name.remove_prefix(1);
  const auto unit = bytes_of_unit(name, whole);
  if (!unit) return std::nullopt;
  const long double bytes = std::round(number * static_cast<long double>(*unit));
  if (bytes < 1 || bytes >= static_cast<long double>(kUnlimited.count())) return std::nullopt;
  return Bytes(static_cast<std::uint64_t>(bytes));
}

/// The lowest limit that `file` states in the group at `path` or in one above it; each group is a folder under `mount`.
Bytes lowest_limit(const std::string& mount, std::string path, const std::string& file) {
  Bytes lowest = kUnlimited;
  for (;;) {
    std::ifstream in(mount + path + "/" + file);
    std::uint64_t limit = 0;
    // "max" is no number and leaves the stream failed.
    if (in >> limit && limit > 0) lowest = std::min(lowest, Bytes(limit));
    if (path.empty()) return lowest;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

Bytes parse_size(std::string_view text, Bytes whole) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (const auto size = find_size(lower, whole)) return *size;
  throw InvalidArgument("'" + std::string(text) +
                        "' is not a size; write bytes, KiB/MiB/GiB, KB/MB/GB, N% of the memory or unlimited");
}

std::string format_bytes(Bytes n) {
  if (n >= kUnlimited) return "unlimited";
  if (n < 1_KiB) return std::to_string(n.count()) + " B";
  double value = static_cast<double>(n.count()) / 1024;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  // The thresholds are where rounding to three digits would show the next power.
  for (; value >= 1023.5 && unit + 1 < std::size(units); ++unit) value /= 1024;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, units[unit]);
  return text.data();
}

Bytes control_group_limit(const std::string& root) {
  Bytes lowest = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  // A line is `number:controllers:path`; version 2 names no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      lowest = std::min(lowest, lowest_limit(root + "/sys/fs/cgroup", path, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      lowest = std::min(lowest, lowest_limit(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

Bytes physical_memory() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(Bytes(pages * page_size), control_group_limit(""));
}

}  // namespace tensorpager::base
