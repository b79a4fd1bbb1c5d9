// A model of torch's caching allocator for a device, to say what it would reserve for the blocks of a plan: one pool
// for requests up to 1 MiB and one for larger ones, segments of 2 MiB, 20 MiB or, from 10 MiB on, the request in units
// of 2 MiB, the best fit in a pool, what is left over split off. Segments are never given back.
//
// It leaves out streams, garbage collection, expandable segments, and that a failed request frees what is cached.
#pragma once

#include "tensorpager/plan/plan.h"
#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

/// Reserved where the plan's rows, births and page-ins alike, are requests at their begin, given back at their end or
/// when a wait covers their page-out.
base::Bytes cached_for(const Plan& plan);

}  // namespace tensorpager::planning
