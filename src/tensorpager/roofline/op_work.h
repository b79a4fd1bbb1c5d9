// How much work an op is, for the rooflines of machines: bytes of its arguments, and arithmetic if a formula is known.
//
// Counted are products of matrices, convolutions, attention and recurrent layers: multiplications and additions, as
// torch.utils.flop_counter does. What works element by element is bound by the bytes that it moves on every machine:
// Adam does some 12 flops an element and moves 28 bytes for it, a fused LSTM cell gets its gates from products that are
// ops of their own.
#pragma once

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "tensorpager/base/event_sink.h"

namespace tensorpager::roofline {

/// Which formula counts an op's arithmetic: a row of the table in op_work.cpp.
enum class Arithmetic : std::uint8_t { kNone };

/// `name` as in aten::mm.
Arithmetic arithmetic_of(std::string_view name);

/// Whether the op multiplies matrices, or solves for one, by cuBLAS on a card, whose handle takes a workspace for each
/// thread and stream. `name` as in aten::mm.
constexpr bool calls_cublas(std::string_view name) {
  constexpr std::string_view kNames[] = {"aten::mm",
                                         "aten::addmm",
                                         "aten::bmm",
                                         "aten::baddbmm",
                                         "aten::addbmm",
                                         "aten::_addmm_activation",
                                         "aten::addmv",
                                         "aten::dot",
                                         "aten::vdot",
                                         "aten::_scaled_mm",
                                         "aten::_int_mm",
                                         "aten::linalg_solve_triangular",
                                         "aten::triangular_solve"};
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(kNames, name) != std::end(kNames);
}

/// Multiplications and additions of one call. `tensors` are those of its arguments in order, lists taken apart.
/// `arguments` may be empty for the products of matrices; 0 if sizes are unknown.
std::uint64_t flops_of(Arithmetic arithmetic, c10::ArrayRef<at::TensorBase> tensors,
                       c10::ArrayRef<c10::IValue> arguments);

/// Bytes that an op reads or writes of a tensor in a block of this size: those of a view, not of all its storage.
base::Bytes moved_of(const at::TensorBase& tensor, base::Bytes block);

/// The precision in which the tensor's arithmetic is done; float32 for other types. On a CUDA device it is TF32 where
/// the program allows it for products. What cuDNN does is not looked at: convolutions and recurrent layers use TF32
/// unless a program forbids it, and machines have rates of float32 for them accordingly.
base::Precision precision_of(const at::TensorBase& tensor);

}  // namespace tensorpager::roofline
