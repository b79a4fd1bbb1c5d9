// Shape functions for ops that torch has no meta kernel for in C++, or one whose sizes or strides are not the CPU's. To
// add an op: its function and a line in the table, or a line among those whose results are like arguments.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace tensorpager::dry {

/// Results, on the device meta, for arguments that are.
using ShapeFunction = torch::jit::Stack (*)(const torch::jit::Stack& arguments);

/// By an op's name with its overload; null if torch's own meta kernel serves.
ShapeFunction find_shape_function(std::string_view name);

// Those of one kind, in files of their own.
torch::jit::Stack convolution_shapes(const torch::jit::Stack& arguments);
torch::jit::Stack convolution_backward_shapes(const torch::jit::Stack& arguments);
torch::jit::Stack rnn_layer_shapes(const torch::jit::Stack& arguments);
torch::jit::Stack rnn_layer_backward_shapes(const torch::jit::Stack& arguments);
torch::jit::Stack attention_shapes(const torch::jit::Stack& arguments);
torch::jit::Stack attention_backward_shapes(const torch::jit::Stack& arguments);

}  // namespace tensorpager::dry
