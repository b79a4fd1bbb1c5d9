// Scaled dot-product attention on CPU tensors [batch, heads, tokens, head size], forward and backward, for kernels that
// run late. Where the CPU's flash kernel covers the case its result is taken, so that a program has the CPU's bits;
// otherwise the formula is computed in float, with dropout from a seed so that both directions have one mask.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

namespace tensorpager::emulation {

constexpr std::int64_t kLogsumexpAlignment = 32;  // cutlass's kernels pad rows of logsumexp to it
constexpr std::int64_t kBiasAlignment = 16;       // and rows of the bias's gradient to it

/// Which keys a query sees if it may not see later ones: the diagonal starts at the upper left corner of the scores, or
/// ends at the lower right one. They differ where queries and keys differ in number.
enum class Causal { kNo, kUpperLeft, kLowerRight };

struct AttentionRules {
  double dropout = 0;           // probability that a weight is dropped
  std::optional<double> scale;  // 1 / sqrt(head size) if absent
  Causal causal = Causal::kNo;
  std::int64_t window_left = -1;   // keys before a query's own that it sees; -1: all
  std::int64_t window_right = -1;  // keys after
};

struct AttentionResult {
  at::Tensor output;
  at::Tensor logsumexp;  // [batch, heads, queries], float
};

struct AttentionGradients {
  at::Tensor query, key, value;
  at::Tensor bias;  // undefined unless asked for; of the bias's own sizes
};

/// Keys and values may have fewer heads than queries, by a whole factor (grouped-query attention). `bias` is added to
/// the scores and broadcasts to [batch, heads, queries, keys].
AttentionResult attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const std::optional<at::Tensor>& bias, const AttentionRules& rules, std::uint64_t seed);

/// `forward` and `seed` are those of the forward pass.
AttentionGradients attend_backward(const at::Tensor& grad_output, const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const std::optional<at::Tensor>& bias,
                                   const AttentionResult& forward, const AttentionRules& rules, std::uint64_t seed,
                                   bool wants_bias);

}  // namespace tensorpager::emulation
