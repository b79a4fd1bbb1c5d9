// R6: one call that works on whole lists of tensors (a fused optimizer step, or on a device any foreach op) has the
// program's parameters and optimizer state as its working set. Its items do not depend on each other, so it is run in
// parts that need little room at a time; the bits are the same.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "tensorpager/intercept/op_info.h"

namespace tensorpager::intercept {

/// By schema and name: an op that takes lists of one length and changes their tensors in place, or makes one of each.
bool is_list_op(const c10::FunctionSchema& schema);

/// Runs the call in parts, each of which is an op, and takes its arguments off the stack. Returns false, with nothing
/// done, if it is small against the budget or its lists do not match. Throws OutOfMemoryError before the first part
/// runs if one item alone does not fit.
bool run_in_parts(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                  torch::jit::Stack& stack);

}  // namespace tensorpager::intercept
