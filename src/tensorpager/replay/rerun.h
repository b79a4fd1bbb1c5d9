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

/// What becomes of what a call makes and writes.
struct Rerun {
  std::function<bool(const Contents&)> may_overwrite;  // what it writes, if that is among `made`; else it is a copy
  std::function<bool(const Call::Output&)> rebuilds;   // the dropped block that the output is
};

/// Runs it, with its inputs resident and pinned. The outputs that rebuild no dropped block are returned. What it may
/// overwrite is gone from `made`. Throws OverBudget, IoError, or what the op throws.
std::vector<Made::One> rerun(pager::Pager& pager, Recipes& recipes, const Call& call, Made& made, const Rerun& how);

/// Gives a dropped block the memory of what a replay made, which must be nobody else's. Frees that if the block died or
/// was rebuilt meanwhile.
void take_over(pager::Pager& pager, const DroppedBlock& block, c10::Storage storage);

}  // namespace tensorpager::replay
