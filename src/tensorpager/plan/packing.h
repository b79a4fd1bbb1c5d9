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
// then the order is mended: what did not fit comes earlier the next time.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/plan/interval.h"

namespace tensorpager::plan {

struct PackingEffort {
  bool many_orders = true;  // else by begin alone
  unsigned repairs = 30;    // rounds of mending the order, at the most
  std::size_t work =
      10'000;  // intervals placed with a look at all ops, at the most: a large trace is packed online only
};

/// Sets `offset` of all intervals, over [begin, release). Stops at the first order whose top is within `space`; the
/// result is the best top found.
std::uint64_t pack(std::vector<Interval>& intervals, std::uint32_t ops, std::uint64_t space,
                   const PackingEffort& effort);

}  // namespace tensorpager::plan
