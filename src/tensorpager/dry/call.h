// One call of an op that came to the skipper: its arguments on the stack, and what their tensors are like.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "tensorpager/dry/op_traits.h"

namespace tensorpager::dry {

/// Calls `visit(const at::Tensor&)` for each tensor in a value, undefined ones included.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor() && !element.isNone()) return;
      if (element.isTensor()) visit(element.toTensor());
    }
  }
}

inline std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
}
inline bool is_floating(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

/// A tensor of the same type, sizes and strides, on the CPU, in memory that is not recorded.
at::Tensor unrecorded_like(const at::Tensor& tensor);

/// Whether it is a strided tensor on the CPU or CUDA whose sizes are numbers.
inline bool is_ordinary(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return (tensor.is_cpu() || tensor.is_cuda()) && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !impl->has_symbolic_sizes_strides();
}

struct Call {
  const c10::OperatorHandle& op;
  const OpTraits& traits;
  c10::DispatchKeySet after;  // the keys that are left
  torch::jit::Stack* stack;

  c10::ArrayRef<c10::IValue> arguments() const {
    return c10::ArrayRef<c10::IValue>(stack->data() + (stack->size() - traits.arguments), traits.arguments);
  }
  /// Replaces the arguments by results.
  void finish(std::vector<c10::IValue>&& results) const {
    torch::jit::drop(*stack, traits.arguments);
    for (c10::IValue& result : results) stack->push_back(std::move(result));
  }
  template <typename Visit>
  void for_each_tensor_argument(Visit&& visit) const {  // visit(tensor, OpTraits::Argument), defined ones
    for (const OpTraits::Argument& argument : traits.tensor_arguments)
      for_each_tensor(arguments()[argument.index], [&](const at::Tensor& tensor) {
        if (tensor.defined()) visit(tensor, argument);
      });
  }
};

}  // namespace tensorpager::dry
