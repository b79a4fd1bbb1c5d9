// Arithmetic of attention as one op: queries, keys and values are batch x heads x length x width.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "tensorpager/roofline/op_call.h"

namespace tensorpager::roofline {

struct AttentionSizes {
  std::uint64_t pairs = 0;  // of a query and a key, over batch and heads
  std::uint64_t key_width = 0;
  std::uint64_t value_width = 0;
};

/// How many pairs a causal mask leaves of queries x keys: query i sees the keys up to i. Flash, memory efficient,
/// cuDNN's and the CPU's kernels skip blocks that are masked whole, so it is these that they compute, and of the blocks
/// on the diagonal some more. torch.utils.flop_counter counts all pairs.
inline std::uint64_t causal_pairs(std::uint64_t queries, std::uint64_t keys) {
  const std::uint64_t growing = std::min(queries, keys);
  return growing * (growing + 1) / 2 + (queries - growing) * keys;
}

/// Keys and values may have fewer heads than queries: each is used by a group of these.
inline AttentionSizes attention_sizes(const OpCall& call, std::size_t first, std::size_t is_causal) {
  const at::TensorBase* const query = call.tensor(first);
  const at::TensorBase* const key = call.tensor(first + 1);
  const at::TensorBase* const value = call.tensor(first + 2);
  if (query == nullptr || key == nullptr || value == nullptr) return {};
  if (query->dim() < 3 || key->dim() < 3 || value->dim() < 3) return {};
  const std::uint64_t queries = unsigned_of(query->size(-2)), keys = unsigned_of(key->size(-2));
  const std::uint64_t width = unsigned_of(query->size(-1));
  if (queries == 0 || width == 0) return {};
  const std::uint64_t heads = unsigned_of(query->numel()) / queries / width;  // of the whole batch
  return {.pairs = heads * (call.flag(is_causal) ? causal_pairs(queries, keys) : queries * keys),
          .key_width = width,
          .value_width = unsigned_of(value->size(-1))};
}

/// Two products: scores = query * key^T and output = weights * value.
inline std::uint64_t attention_flops(const OpCall& call, std::size_t is_causal) {
  const AttentionSizes of = attention_sizes(call, 0, is_causal);
  return 2 * of.pairs * (of.key_width + of.value_width);
}

/// Five products, as no kernel keeps the scores (FlashAttention, Dao et al. 2022, algorithm 4): the scores once more,
/// and the gradients of values, weights, queries and keys.
inline std::uint64_t attention_backward_flops(const OpCall& call, std::size_t is_causal) {
  const AttentionSizes of = attention_sizes(call, 1, is_causal);
  return 2 * of.pairs * (3 * of.key_width + 2 * of.value_width);
}

/// Attention of an input (tensor 0: batch x length x width) to itself with the weights at these arguments, as one op,
/// which is what nn.MultiheadAttention and nn.TransformerEncoderLayer call in evaluation: all rows with each weight,
/// and two products of length x length x width between them.
inline std::uint64_t self_attention_flops(const OpCall& call, std::initializer_list<std::size_t> weights) {
  const at::TensorBase* const input = call.tensor(0);
  if (input == nullptr || input->dim() != 3 || input->size(2) == 0) return 0;
  const std::uint64_t size = unsigned_of(input->numel());
  std::uint64_t flops = 4 * size * unsigned_of(input->size(1));
  for (const std::size_t weight : weights) {
    if (weight >= call.arguments.size() || !call.arguments[weight].isTensor()) return 0;
    const at::TensorBase& matrix = call.arguments[weight].toTensor();
    if (has_sizes(matrix)) flops += 2 * size / unsigned_of(input->size(2)) * unsigned_of(matrix.numel());
  }
  return flops;
}

}  // namespace tensorpager::roofline
