// Residency and offsets decided together, op by op, as a pager does on demand: what an op lacks goes to the tightest
// gap, and where there is none something is evicted. It never fails from the floor on: in the worst case all that is
// resident leaves and the op's working set is stacked from the bottom. That makes it the last resort of planning too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensorpager/planning/interval.h"

namespace tensorpager::planning {

enum class Victim : std::uint8_t {
  kLeastRecentlyUsed,  // evicts when room is needed, without knowledge of later uses
  kFarthestNextUse,    // by range: the cheapest run of neighbours; leaves after its last use
};

struct OnlinePlacement {
  std::vector<Interval> intervals;     // with offsets; page-ins begin where they are needed
  std::vector<std::int64_t> earliest;  // by interval: the op from which on its range is free
};

/// Returns nullopt if a storage of `boundary` does not come back to its offset.
std::optional<OnlinePlacement> place_online_within(const Liveness& liveness, std::uint64_t space, base::Bytes granule,
                                                   const Boundary& boundary, Victim victim);

/// `space` is at least the floor without slabs.
OnlinePlacement place_online(const Liveness& liveness, std::uint64_t space, base::Bytes granule, Victim victim);

}  // namespace tensorpager::planning
