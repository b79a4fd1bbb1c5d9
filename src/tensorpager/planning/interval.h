// Resident intervals while a plan is made: like rows, but counted on over the window's end, and with what is not
// settled yet. [begin, need) is a page-in under way, [need, end) residence, [end, release) a page-out under way, for as
// long as it is charged. The copy may still be under way then, where a page-in waits for it in its queue: until
// `copied` what compute writes must wait for it.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/plan/liveness.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/planning/eviction.h"
#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

inline constexpr std::uint32_t kNoInterval = UINT32_MAX;

struct Interval {
  StorageId storage = kTemporary;
  std::uint64_t bytes = 0;
  std::int64_t begin = 0;  // within the window
  std::int64_t need = 0;   // within the window
  std::int64_t end = 0;    // up to twice the window
  std::int64_t release = 0;
  std::int64_t copied = 0;  // at the earliest at `release`, whatever this says
  std::uint64_t offset = 0;
  Fill fill = Fill::kBorn;  // kBoundary: resident all the time
  Leave leave = Leave::kDies;
  std::uint32_t previous = kNoInterval;  // where this is a page-in: the interval before, of the same storage

  bool fixed = false;  // its offset is given

  bool is_whole() const { return fill == Fill::kBoundary; }
  /// Bytes times ops.
  double area() const { return static_cast<double>(bytes) * static_cast<double>(release - begin); }
  /// The op from which on compute may write to its range.
  std::int64_t free_for_births() const { return copied > release ? copied : release; }
};

/// `early`: whether storages leave after their last use, or only where the room is needed.
std::vector<Interval> make_intervals(const Liveness& liveness, const Evictions& evictions, bool early);

/// Makes the rows of the table, without waits; an interval over the window's end becomes two rows. `ticket_of` gets the
/// ticket of each interval's page-out, from 1; 0 if it has none.
std::vector<Row> make_rows(const std::vector<Interval>& intervals, std::uint32_t ops,
                           std::vector<std::uint32_t>* ticket_of = nullptr);

}  // namespace tensorpager::planning
