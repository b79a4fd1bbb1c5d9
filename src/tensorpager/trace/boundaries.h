// Where a program's windows begin and end. Nothing tells, so it is worked out from what was alive when:
//
//   bytes alive, gradients apart          B: boundary
//        /\            /\          /\                     a training step
//       /  \          /  \        /  \       /\  /\       two evaluation batches
//   ___/    \________/    \______/    \_____/  \/  \___
//        optimizer  B  optimizer  B         B   B   B
//
// - A boundary lies where the set of live storages is one that comes back, by the ops that made them (sizes change with
//   the batch). Never within a run of the autograd engine or an optimizer's step.
// - Of the sets that come back at nearly every step, the one with the fewest bytes counts: it is met between steps, and
//   not in the middle of a forward pass or of a loop over time. A step is what the program marks, else a step of an
//   optimizer, else a run of the engine.
// - Gradients are left out of that, as they may die before, in or after a step. Then the boundary is put where they too
//   are the same at most steps.
// - What returns to that set but runs no backward pass, and is less than a fifth of one that does, writes what was
// there
//   before, or comes before an optimizer's step, is no window: clipping, updates and averages of weights belong to the
//   step before, other trifles (logging, loading) to the next.
// - A longer stretch without a backward pass is taken apart where it does the same several times (batches of an
//   evaluation, each held until the next is there).
#pragma once

#include <vector>

#include "tensorpager/trace/stream.h"
#include "tensorpager/trace/window_trace.h"

namespace tensorpager::trace {

/// Windows in order, none overlapping. What lies between two of them is no window: initialisation, or an odd stretch.
std::vector<Span> find_windows(const Stream& stream);

}  // namespace tensorpager::trace
