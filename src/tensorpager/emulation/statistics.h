// CUDA keeps the mean and the deviation that a normalisation saves for its gradient in float32, whatever its input is;
// the CPU keeps them in the type of the weights, and its gradients take no other.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace tensorpager::emulation {

/// In a late kernel: casts the saved statistics among a gradient's arguments to the type that the CPU's kernel takes.
/// Exact, as the CPU made them in that type. Other ops are left as they are.
void cast_statistics(const std::string& op, torch::jit::Stack& stack);

}  // namespace tensorpager::emulation
