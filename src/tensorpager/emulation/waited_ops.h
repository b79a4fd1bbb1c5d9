// Ops whose results' shapes, or results themselves, are known only when their kernel ran: it is queued as any other,
// and the host waits for it, as CUDA's does for `nonzero`.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "tensorpager/emulation/op_traits.h"

namespace tensorpager::emulation {

/// Runs even while this thread skips kernels. What the kernel throws is thrown here.
void run_and_wait(const c10::OperatorHandle& op, const OpTraits& traits, const std::string& reason,
                  const std::vector<c10::IValue>& arguments, torch::jit::Stack* stack);

/// Ops that were waited for so far, one a line: name, tab, the first reason.
std::string synchronous_ops();

}  // namespace tensorpager::emulation
