// Arithmetic of products of matrices and vectors.
#pragma once

#include "tensorpager/roofline/op_call.h"

namespace tensorpager::roofline {

/// Of the tensors `left` and left + 1. n x k times k x m is n * m sums of k products: 2 * n * k * m; a batch of them
/// has as many more rows, and a vector is a matrix of one column.
inline std::uint64_t product_flops(const OpCall& call, std::size_t left) {
  const at::TensorBase* const a = call.tensor(left);
  const at::TensorBase* const b = call.tensor(left + 1);
  if (a == nullptr || b == nullptr || a->dim() == 0 || b->dim() == 0) return 0;
  return 2 * unsigned_of(a->numel()) * (b->dim() == 1 ? 1 : unsigned_of(b->size(-1)));
}

/// linear(input, weight): each row of the input times the weight, transposed.
inline std::uint64_t linear_flops(const OpCall& call) {
  const at::TensorBase* const input = call.tensor(0);
  const at::TensorBase* const weight = call.tensor(1);
  if (input == nullptr || weight == nullptr || weight->dim() == 0) return 0;
  return 2 * unsigned_of(input->numel()) * (weight->dim() == 1 ? 1 : unsigned_of(weight->size(0)));
}

/// _grouped_mm(left, right, offsets): each group's rows, or columns, with that group's matrix.
inline std::uint64_t grouped_product_flops(const OpCall& call) {
  const at::TensorBase* const a = call.tensor(0);
  const at::TensorBase* const b = call.tensor(1);
  if (a == nullptr || b == nullptr || a->dim() < 2 || b->dim() < 2) return 0;
  // If only the left one has a matrix per group, each of these meets its own share of the right one's columns.
  const bool columns_are_shared = a->dim() == 3 && b->dim() == 2;
  const std::uint64_t groups = columns_are_shared ? unsigned_of(a->size(0)) : 1;
  return groups == 0 ? 0 : 2 * unsigned_of(a->numel()) / groups * unsigned_of(b->size(-1));
}

}  // namespace tensorpager::roofline
