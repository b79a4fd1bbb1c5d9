// A count of bytes as a type of its own, and the sizes people write on a command line.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tensorpager::base {

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}

  constexpr std::uint64_t count() const { return count_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }

 private:
  std::uint64_t count_ = 0;
};

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(n); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(n << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(n << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(n << 30); }
constexpr Bytes operator""_TiB(unsigned long long n) { return Bytes(n << 40); }

/// No limit. Below 2^63 so that sums of a few of them cannot wrap.
inline constexpr Bytes kUnlimited{std::uint64_t{1} << 60};

/// The page size of the machine: the stable binding rounds charged blocks up to it.
inline constexpr Bytes kPage = 4_KiB;
/// From this size on blocks are aligned to, and served by, huge pages.
inline constexpr Bytes kHugePage = 2_MiB;

/// Rounds up to a multiple of `granule`, a power of two.
constexpr Bytes round_up(Bytes n, Bytes granule) {
  return Bytes((n.count() + granule.count() - 1) & ~(granule.count() - 1));
}
/// Rounds down to one.
constexpr Bytes round_down(Bytes n, Bytes granule) { return Bytes(n.count() & ~(granule.count() - 1)); }

/// Reads a size as people write it: `1048576`, `512KiB`, `1.5GiB`, `2GB`, `25%` (of `whole`), `unlimited`.
/// KiB, MiB, GiB, TiB are powers of 1024 and KB, MB, GB, TB of 1000; case and one space before the unit do not matter.
/// Throws InvalidArgument, naming the text and what would be accepted, on anything else and on zero.
Bytes parse_size(std::string_view text, Bytes whole);

/// The size as messages show it: `1.50 GiB`, `12.0 KiB`, `17 B`.
std::string format_bytes(Bytes n);

/// The machine's RAM, or the limit of a control group if that is lower.
Bytes physical_memory();

/// The lowest memory limit of this process's control groups (version 1 and 2) and all above them; kUnlimited if there
/// is none. `root` is put before /proc and /sys.
Bytes control_group_limit(const std::string& root);

}  // namespace tensorpager::base
