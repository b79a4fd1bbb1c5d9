// How many memory mappings the process has, against the kernel's limit. Counting them reads /proc, so between counts an
// upper bound is kept.
#pragma once

#include <cstdint>

namespace tensorpager::arena {

class Mappings {
 public:
  Mappings();
  /// For tests: another limit than the kernel's.
  explicit Mappings(std::uint64_t limit);

  /// Notes that up to `count` more mappings may exist.
  void add(std::uint64_t count) { bound_ += count; }
  /// Whether `count` more can be made and still leave the program a tenth of the limit. Counts exactly only when the
  /// bound says no.
  bool has_room_for(std::uint64_t count);

  std::uint64_t limit() const { return limit_; }
  static std::uint64_t count_now();  // lines of /proc/self/maps

 private:
  std::uint64_t limit_;
  std::uint64_t bound_;
};

}  // namespace tensorpager::arena
