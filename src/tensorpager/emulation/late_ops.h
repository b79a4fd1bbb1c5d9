// Any op that has kernels for CUDA and for the CPU, run late: this boxed kernel takes the place of the one that would
// launch. It makes the outputs at once, from the CUDA allocator, and queues the CPU's kernel on the current stream.
// Views, factories and other host code stay libtorch_cuda's own (torch_internals.h).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace tensorpager::emulation {

void run_late(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// `copy_`: all but copies on one device that take a kernel is torch's own host code.
void run_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Throws: the op has a kernel for CUDA, and nothing here takes its place.
void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace tensorpager::emulation
