// A call of an op's CPU kernel, made when the stream comes to it: its arguments, and where it runs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <vector>

#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/emulation/op_traits.h"

namespace tensorpager::emulation {

/// Where an op runs, as torch's own wrappers of CUDA kernels find it.
struct Place {
  std::optional<c10::Device> device;  // of the first tensor there, else an argument
  bool is_one = true;                 // the device of all tensors that are on one
};

/// Throws torch's own error if tensors are on devices that may not be mixed.
Place place_of(const c10::OperatorHandle& op, const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments);

/// One argument for the CPU's kernel: tensors over device bytes, a generator that is seeded by the device's.
c10::IValue late_argument(const OpTraits& traits, const c10::IValue& value, std::size_t i, Operands& with);

/// The arithmetic of a call, where the op's is known.
fake_cuda::Work work_of(const OpTraits& traits, const std::vector<c10::IValue>& arguments);

/// Calls the CPU's kernel, in a late kernel. Its results take the place of the arguments.
void call_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace tensorpager::emulation
