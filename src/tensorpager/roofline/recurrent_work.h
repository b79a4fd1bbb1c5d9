// Arithmetic of recurrent layers as one op.
#pragma once

#include "tensorpager/roofline/op_call.h"

namespace tensorpager::roofline {

inline std::uint64_t matrix_size(const c10::IValue& value) {
  if (value.isList()) {
    std::uint64_t sum = 0;
    for (const c10::IValue& element : value.toListRef()) sum += matrix_size(element);
    return sum;
  }
  if (!value.isTensor()) return 0;
  const at::TensorBase& weight = value.toTensor();
  return has_sizes(weight) && weight.dim() == 2 ? unsigned_of(weight.numel()) : 0;  // biases are vectors
}

/// Of one pass over the input with so many elements in weight matrices. Every matrix, of whatever layer, direction and
/// gate, meets each element of each sequence once: 2 * elements * weights. Elements are time * batch, or the sum of
/// batch_sizes where sequences are packed, which is the number of rows of the input in either form. What the gates do
/// afterwards is elementwise.
inline std::uint64_t recurrent_flops(const at::TensorBase& input, std::uint64_t weights) {
  if (input.dim() < 2 || input.size(-1) == 0) return 0;
  return 2 * unsigned_of(input.numel() / input.size(-1)) * weights;
}

/// Tensor 0 is the input; the weights lie in the arguments [begin, end), tensors or lists of them.
inline std::uint64_t recurrent_flops(const OpCall& call, std::size_t begin, std::size_t end) {
  const at::TensorBase* const input = call.tensor(0);
  if (input == nullptr || call.arguments.size() < end) return 0;
  std::uint64_t weights = 0;
  for (std::size_t i = begin; i < end; ++i) weights += matrix_size(call.arguments[i]);
  return recurrent_flops(*input, weights);
}

}  // namespace tensorpager::roofline
