// One call of an op, as the formulas of its arithmetic see it: op_work.cpp has the table, and matrix_work.h,
// convolution_work.h, attention_work.h and recurrent_work.h the formulas. These count multiplications and additions;
// they return 0 if sizes are unknown or arguments are not what the schema says.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace tensorpager::roofline {

/// Whether the tensor is strided and its sizes are numbers.
inline bool has_sizes(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

inline std::uint64_t unsigned_of(std::int64_t n) { return n > 0 ? static_cast<std::uint64_t>(n) : 0; }

struct OpCall {
  c10::ArrayRef<at::TensorBase> tensors;  // in the order of arguments; lists taken apart, absent ones left out
  c10::ArrayRef<c10::IValue> arguments;   // empty if the op was called unboxed

  /// Returns null if there is none, or its sizes are not known.
  const at::TensorBase* tensor(std::size_t index) const {
    return index < tensors.size() && has_sizes(tensors[index]) ? &tensors[index] : nullptr;
  }

  /// Returns false if the argument is no bool.
  bool flag(std::size_t index) const {
    return index < arguments.size() && arguments[index].isBool() && arguments[index].toBool();
  }

  /// Returns an empty list if the argument is no list of numbers.
  std::vector<std::int64_t> numbers(std::size_t index) const {
    if (index >= arguments.size() || !arguments[index].isIntList()) return {};
    return arguments[index].toIntVector();
  }

  /// True if this element of a bool[] is, or if the argument is none.
  bool wants(std::size_t mask, std::size_t element) const {
    if (mask >= arguments.size() || !arguments[mask].isBoolList()) return true;
    const auto list = arguments[mask].toBoolList();
    return element >= list.size() || list.get(element);
  }
};

}  // namespace tensorpager::roofline
