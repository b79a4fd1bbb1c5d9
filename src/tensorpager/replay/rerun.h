// Runs one captured call again.
#pragma once

#include <functional>
#include <vector>

#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/replay/made.h"
#include "tensorpager/replay/recipes.h"

namespace tensorpager::replay {

/// Whether all that the call is made from is there: as contents of blocks, dropped ones too, or among `made`.
bool can_rerun(Recipes& recipes, const Call& call, const Made& made);

/// Shows the set what the call is made from.
void see_inputs(Recipes& recipes, const Call& call, const Made& made, pager::PinSet& pins);

/// Runs it, with its inputs resident and pinned. Dropped blocks among its outputs are rebuilt; the other outputs are
/// returned. What it writes is a copy, unless it is among `made` and `may_overwrite` says so: then it is gone there.
/// Throws OverBudget, IoError, or what the op throws.
std::vector<Made::One> rerun(pager::Pager& pager, Recipes& recipes, const Call& call, Made& made,
                             const std::function<bool(const Contents&)>& may_overwrite);

}  // namespace tensorpager::replay
