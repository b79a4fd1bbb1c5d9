// Where a program's windows begin and end. The program does not say, so it is inferred from which storages are alive:
//
//   bytes alive, gradients apart          B: boundary
//        /\            /\          /\                     a training step
//       /  \          /  \        /  \       /\  /\       two evaluation batches
//   ___/    \________/    \______/    \_____/  \/  \___
//        optimizer  B  optimizer  B         B   B   B
//
// - A boundary lies where the set of live storages recurs; storages are compared by the ops that made them (sizes
//   change with the batch). It is never within a run of the autograd engine or an optimizer's step.
// - Of the sets that recur at nearly every step, the one with the fewest bytes is chosen: it occurs between steps, and
//   not in the middle of a forward pass or of a loop over time. A step is what the program marks, else a step of an
//   optimizer, else a run of the engine.
// - Gradients are left out of these sets, as they may die before, in or after a step. The boundary is then put where
//   the gradients too are the same at most steps.
// - A stretch between two recurrences is no window if it runs no backward pass and has less than a fifth of the ops of
//   a step, writes older storages, or precedes an optimizer's step: clipping, updates and averages of weights belong to
//   the step before, other short stretches (logging, loading) to the next.
// - A longer stretch without a backward pass is split if it repeats the same ops (batches of an evaluation, each held
//   until the next is there).
#pragma once

#include <vector>

#include "tensorpager/trace/stream.h"
#include "tensorpager/trace/window_trace.h"

namespace tensorpager::trace {

/// Returns the windows in order; they do not overlap. Ops between windows belong to none: initialisation, or a stretch
/// that does not recur.
std::vector<Span> find_windows(const Stream& stream);

}  // namespace tensorpager::trace
