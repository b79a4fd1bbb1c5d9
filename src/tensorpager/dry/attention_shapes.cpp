#include <ATen/ATen.h>

#include "tensorpager/dry/shape_table.h"

namespace tensorpager::dry {
namespace {

/// [batch, heads, time, width] over memory of [batch, time, heads, width], as the CPU's fused attention gives
/// gradients.
at::Tensor with_heads_inside(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

}  // namespace

/// _scaled_dot_product_flash_attention_for_cpu(query, key, value, ...): the output and the logarithms of sums.
torch::jit::Stack attention_shapes(const torch::jit::Stack& arguments) {
  const at::Tensor& query = arguments[0].toTensor();
  const at::ScalarType sums = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty_like(query),
          at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(sums)).transpose(1, 2)};
}

/// ..._backward(grad_out, query, key, value, ...).
torch::jit::Stack attention_backward_shapes(const torch::jit::Stack& arguments) {
  return {with_heads_inside(arguments[1].toTensor()), with_heads_inside(arguments[2].toTensor()),
          with_heads_inside(arguments[3].toTensor())};
}

}  // namespace tensorpager::dry
