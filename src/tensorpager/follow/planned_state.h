// Brings what is resident to the plan's state at an op: when a window begins, and when the plan continues from another
// op than its op before, after ops of another plan, or of none.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/names.h"
#include "tensorpager/follow/storage_map.h"

namespace tensorpager::follow {

/// Where blocks are that the plan has resident.
enum class Places : std::uint8_t {
  kPlanned,  // at their places, or away: as they were accessed between ops
  kAny,      // also at the places of others
};

/// The page-in of a row.
Action page_in_of(Block& block, const Row& row);

/// Blocks that the plan has paged out when this op begins leave: on demand more may have stayed, and what no window
/// uses may have been used between two, an optimizer's state, say, that is saved. Blocks that it has resident come, in
/// the order of their next uses; those to be paged in from this op on come with their rows. Where they may be at any
/// place, as many as can go to their own places without evicting another, which would come back, do. Returns false if
/// some that are to leave stay, as code outside of torch holds their addresses.
bool reach_planned_state(const Agenda& agenda, const StorageMap& storages, std::uint32_t op, Places places,
                         std::vector<Action>& actions);

}  // namespace tensorpager::follow
