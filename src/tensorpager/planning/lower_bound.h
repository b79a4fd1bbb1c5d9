// The least time that any plan without recomputation could take, by bytes and the links' rates alone.
//
// At an op k whose live bytes are X above the budget, X bytes are below. Those of storages that were still used after
// op r left between r and k, and those that are used again before op d come back between k and d: so many bytes take so
// much time. Each such statement bounds the time between two ops; the longest chain of them bounds the window.
#pragma once

#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/liveness.h"
#include "tensorpager/planning/names.h"

namespace tensorpager::planning {

/// The least step time of a window, in any steady state. `op_times` is from timing.h.
Nanoseconds lower_bound(const Liveness& liveness, const std::vector<Nanoseconds>& op_times, const Machine& machine,
                        base::Bytes budget);

}  // namespace tensorpager::planning
