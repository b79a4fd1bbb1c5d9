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
  bool many_orders = true;           // else by begin alone
  bool ejection = true;              // where no order fits
  unsigned repairs = 6;              // rounds of mending the order, at the most, where that does not fit either
  std::uint64_t looks = 40'000'000;  // at placed blocks, some ns each: most orders are for small traces
  std::uint64_t looks_each = 4000;   // more of them for each interval

  /// For so many passes over all intervals; false where that is more than there is, but for what is `kept`.
  bool spend(std::size_t intervals, std::uint64_t passes, std::uint64_t kept = 0);
};

/// Sets `offset` of all intervals that are not fixed, over [begin, release). More is tried until the top is within
/// `space`; the result is the best top found. `starts` are the times at which ops start, and the window's end.
std::uint64_t pack(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                   PackingEffort& effort);

/// The end of the highest block.
std::uint64_t top_of(const std::vector<Interval>& intervals);

/// The most that is there at once, over [begin, release): no packing has a lower top.
std::uint64_t most_taken(const std::vector<Interval>& intervals, std::uint32_t ops);

enum class PackingOrder : std::uint8_t { kSize, kArea, kBegin };

/// The same, where what finds no room lies where another's transfer is under way, wherever one of the two must wait the
/// least. Page-ins may begin too early then (delay_page_ins). False where not even residence finds room.
bool pack_over_transfers(std::vector<Interval>& intervals, const std::vector<Nanoseconds>& starts, std::uint64_t space,
                         PackingOrder by, PackingEffort& effort);

}  // namespace tensorpager::planning
