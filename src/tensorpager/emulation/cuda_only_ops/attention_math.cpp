#include "tensorpager/emulation/cuda_only_ops/attention_math.h"

#include <cmath>
#include <limits>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Tensor with_heads(const Tensor& tensor, std::int64_t heads) {
  return tensor.size(1) == heads ? tensor : at::repeat_interleave(tensor, heads / tensor.size(1), 1);
}

/// Sums over the query heads that share a head of keys.
Tensor summed_to_heads(const Tensor& gradient, std::int64_t heads) {
  if (gradient.size(1) == heads) return gradient;
  return gradient.reshape({gradient.size(0), heads, -1, gradient.size(2), gradient.size(3)}).sum(2);
}

bool hides_keys(const AttentionRules& rules) {
  return rules.causal != Causal::kNo || rules.window_left >= 0 || rules.window_right >= 0;
}

bool cpu_kernel_covers(const AttentionRules& rules, const Tensor& query, const Tensor& key, const Tensor& value,
                       const std::optional<Tensor>& bias) {
  const bool square = query.size(2) == key.size(2);
  return rules.dropout == 0 && rules.window_left < 0 && rules.window_right < 0 && query.numel() > 0 &&
         key.numel() > 0 && query.size(3) == value.size(3) && !(is_given(bias) && rules.causal != Causal::kNo) &&
         (rules.causal != Causal::kLowerRight || square) && query.stride(3) == 1 && key.stride(3) == 1 &&
         value.stride(3) == 1;
}

/// The bias in the sizes of the scores and, for the CPU's kernel, in the type of the queries.
std::optional<Tensor> expanded(const std::optional<Tensor>& bias, const Tensor& query, const Tensor& key) {
  if (!is_given(bias)) return std::nullopt;
  return bias->expand({query.size(0), query.size(1), query.size(2), key.size(2)}).to(query.scalar_type());
}

double scale_of(const AttentionRules& rules, const Tensor& query) {
  return rules.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
}

/// A mask that is true where a query must not see a key: [queries, keys].
Tensor hidden_keys(std::int64_t queries, std::int64_t keys, const AttentionRules& rules) {
  const std::int64_t shift = rules.causal == Causal::kUpperLeft ? 0 : keys - queries;
  const Tensor ahead = at::arange(keys, at::kLong) - (at::arange(queries, at::kLong).unsqueeze(1) + shift);
  Tensor hidden = at::zeros({queries, keys}, at::kBool);
  if (rules.causal != Causal::kNo) hidden = hidden.logical_or(ahead > 0);
  if (rules.window_left >= 0) hidden = hidden.logical_or(ahead < -rules.window_left);
  if (rules.window_right >= 0) hidden = hidden.logical_or(ahead > rules.window_right);
  return hidden;
}

Tensor scores_of(const Tensor& query, const Tensor& key, const std::optional<Tensor>& bias,
                 const AttentionRules& rules) {
  Tensor scores = at::matmul(widened(query) * scale_of(rules, query), widened(key).transpose(-2, -1));
  if (is_given(bias)) scores = scores + widened(*bias);
  if (hides_keys(rules)) scores = scores.masked_fill(hidden_keys(query.size(2), key.size(2), rules), kMinusInfinity);
  return scores;
}

/// What weights are multiplied with: 0 for a dropped one, 1 / (1 - p) for a kept one; undefined without dropout.
Tensor dropout_factors(const Tensor& weights, const AttentionRules& rules, std::uint64_t seed) {
  if (rules.dropout == 0) return {};
  const double keep = 1 - rules.dropout;
  return at::empty(weights.sizes(), weights.options())
      .bernoulli_(keep, generator_of(seed))
      .mul_(keep == 0 ? 0 : 1 / keep);
}

}  // namespace

AttentionResult attend(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& bias,
                       const AttentionRules& rules, std::uint64_t seed) {
  const Tensor k = with_heads(key, query.size(1)), v = with_heads(value, query.size(1));
  if (cpu_kernel_covers(rules, query, k, v, bias)) {
    const auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        query, k, v, 0, rules.causal != Causal::kNo, expanded(bias, query, k), rules.scale);
    return {output, logsumexp};
  }
  const Tensor scores = scores_of(query, k, bias, rules);
  Tensor weights = at::_safe_softmax(scores, -1);
  const Tensor factors = dropout_factors(weights, rules, seed);
  if (factors.defined()) weights = weights * factors;
  return {at::matmul(weights, widened(v)).to(query.scalar_type()), at::logsumexp(scores, {-1})};
}

AttentionGradients attend_backward(const Tensor& grad_output, const Tensor& query, const Tensor& key,
                                   const Tensor& value, const std::optional<Tensor>& bias,
                                   const AttentionResult& forward, const AttentionRules& rules, std::uint64_t seed,
                                   bool wants_bias) {
  const Tensor k = with_heads(key, query.size(1)), v = with_heads(value, query.size(1));
  if (!wants_bias && cpu_kernel_covers(rules, query, k, v, bias)) {
    const auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad_output, query, k, v, forward.output, forward.logsumexp.contiguous(), 0, rules.causal != Causal::kNo,
        expanded(bias, query, k), rules.scale);
    return {gq, summed_to_heads(gk, key.size(1)), summed_to_heads(gv, value.size(1)), Tensor()};
  }
  const Tensor weights = at::_safe_softmax(scores_of(query, k, bias, rules), -1), gradient = widened(grad_output);
  const Tensor factors = dropout_factors(weights, rules, seed);
  const Tensor kept = factors.defined() ? weights * factors : weights;
  const Tensor grad_value = at::matmul(kept.transpose(-2, -1), gradient);
  Tensor grad_weights = at::matmul(gradient, widened(v).transpose(-2, -1));
  if (factors.defined()) grad_weights = grad_weights * factors;
  const Tensor grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, true));
  const double scale = scale_of(rules, query);
  const Tensor grad_query = at::matmul(grad_scores, widened(k)) * scale;
  const Tensor grad_key = at::matmul(grad_scores.transpose(-2, -1), widened(query)) * scale;
  return {grad_query, summed_to_heads(grad_key, key.size(1)), summed_to_heads(grad_value, value.size(1)),
          wants_bias && is_given(bias) ? grad_scores.sum_to_size(bias->sizes()) : Tensor()};
}

}  // namespace tensorpager::emulation
