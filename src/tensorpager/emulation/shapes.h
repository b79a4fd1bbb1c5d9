// The sizes, strides and types of an op's results, from torch's shape functions (its kernels for the device `meta`). In
// a Python program most of these are Python code that takes some hundred microseconds, so answers are kept by op and
// by what the arguments are.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "tensorpager/emulation/op_traits.h"

namespace tensorpager::emulation {

struct Shape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  c10::ScalarType type;
  bool defined;  // false: the result is an undefined tensor

  static Shape of(const at::Tensor& tensor);
};

/// One result: a tensor, a list of tensors, or one that is no new tensor.
struct ResultShape {
  enum class Kind : std::uint8_t { kArgument, kTensor, kList } kind;
  std::vector<Shape> tensors;
};

struct Shapes {
  std::string failure;      // why torch has none for these arguments; empty if it has
  bool is_missing = false;  // the failure is that the op has no shape function
  std::vector<ResultShape> results;
};

/// Calls the shape function, or returns its cached answer. Thread-safe; no lock is held while Python code runs.
std::shared_ptr<const Shapes> shapes_of(const c10::OperatorHandle& op, const OpTraits& traits,
                                        const std::vector<c10::IValue>& arguments);

}  // namespace tensorpager::emulation
