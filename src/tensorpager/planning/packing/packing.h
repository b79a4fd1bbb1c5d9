// Offsets for resident intervals in one arena: the third decision of a plan. An interval is a rectangle, its ops by its
// bytes; one that goes over the window's end is two with one offset. No two may overlap.
//
//   offset
//     ^   +-----------------+   +----
//     |   |        b        |   | c      c goes over the end
//     | --+----+------------+---+
//     |  c     |       a        |
//     +--------+----------------+----> op
//
// Offline packing is a matter of order: each interval takes the tightest gap that is left. Several orders are tried,
// then what did not fit takes the place of others (ejection.h), then the order is mended: what did not fit comes
// earlier the next time. What is resident must have its range alone; the time that transfers take is only expected, and
// may be given up for some of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/machine/machine.h"
#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

/// How hard packing tries, in all calls that are given the same object.
struct PackingEffort {
  bool many_orders = true;           // tries several orders; else by begin alone
  bool ejection = true;              // if no order fits
  unsigned repairs = 6;              // at most so many rounds of repairing the order, if that does not fit either
  std::uint64_t looks = 40'000'000;  // at placed blocks, some ns each: most orders are for small traces
  std::uint64_t looks_each = 4000;   // more of them for each interval

  /// Spends effort for so many passes over all intervals. Returns false if less is left, without what is `kept`.
  bool spend(std::size_t intervals, std::uint64_t passes, std::uint64_t kept = 0);
};

/// Sets `offset` of all intervals that are not fixed, over [begin, release). More is tried until the top is within
/// `space`; the result is the best top found. `starts` are the times at which ops start, and the window's end.
std::uint64_t pack(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                   PackingEffort& effort);

/// The end of the highest block.
std::uint64_t top_of(const std::vector<Interval>& intervals);

/// The peak bytes of all intervals over [begin, release): no packing has a lower top.
std::uint64_t most_taken(const std::vector<Interval>& intervals, std::uint32_t ops);

enum class PackingOrder : std::uint8_t { kSize, kArea, kBegin };

/// As pack(), but an interval that finds no room may overlap another's transfer, where the wait of one for the other is
/// shortest. Page-ins may then begin too early (delay_page_ins). Returns false if there is no room even for residence.
bool pack_over_transfers(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                         PackingOrder by, PackingEffort& effort);

}  // namespace tensorpager::planning
