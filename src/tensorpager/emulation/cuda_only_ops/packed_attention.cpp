// Attention over sequences of different lengths that lie one behind another, as nested tensors and Hugging Face models
// call it; the same ops take dense batches [batch, tokens, heads, head size]. Lengths are on the device and so are read
// by the kernel only.
#include <ATen/core/dispatch/Dispatcher.h>

#include <limits>
#include <tuple>
#include <utility>

#include "tensorpager/emulation/cuda_only_ops/attention_math.h"
#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

/// Where flash and cutlass put the logsumexp of packed sequences: [heads, all tokens], or [sequence, heads, rows].
enum class Rows { kByToken, kBySequence };

struct Packed {
  Tensor query, key, value;  // [tokens, heads, size], or [batch, tokens, heads, size] without starts
  OptionalTensor bias;       // dense batches only
  OptionalTensor query_starts, key_starts;

  Packed aliased(Operands& with) const {
    return {with.read(query), with.read(key),          with.read(value),
            with.read(bias),  with.read(query_starts), with.read(key_starts)};
  }
  std::int64_t sequences() const { return is_given(query_starts) ? query_starts->numel() - 1 : 1; }
};

/// One sequence of packed tensors, or the whole of dense ones, as [batch, heads, tokens, size].
Tensor sequence_of(const Tensor& tensor, const OptionalTensor& starts, std::int64_t i) {
  if (!is_given(starts)) return tensor.transpose(1, 2);
  const std::int64_t begin = (*starts)[i].item<std::int64_t>(), end = (*starts)[i + 1].item<std::int64_t>();
  return tensor.narrow(0, begin, end - begin).transpose(0, 1).unsqueeze(0);
}

/// The rows of one sequence, [batch, heads, queries].
Tensor rows_of(const Tensor& logsumexp, const OptionalTensor& starts, std::int64_t i, std::int64_t queries, Rows rows) {
  if (!is_given(starts)) return logsumexp.narrow(2, 0, queries);
  if (rows == Rows::kBySequence) return logsumexp.narrow(0, i, 1).narrow(2, 0, queries);
  return logsumexp.narrow(1, (*starts)[i].item<std::int64_t>(), queries).unsqueeze(0);
}

void launch_forward(const char* name, const Packed& packed, const AttentionRules& rules, Rows rows, std::uint64_t seed,
                    const Tensor& output, const Tensor& logsumexp, const Tensor& state) {
  Operands with;
  const Packed in = packed.aliased(with);
  const Tensor out = with.write(output), lse = with.write(logsumexp);
  const Tensor seed_out = rules.dropout > 0 && state.is_cuda() ? with.write(state) : Tensor();
  launch(name, with, [=] {
    if (seed_out.defined()) put_seed(seed_out, seed);
    if (rows == Rows::kBySequence) lse.fill_(std::numeric_limits<float>::infinity());
    for (std::int64_t i = 0; i < in.sequences(); ++i) {
      const Tensor q = sequence_of(in.query, in.query_starts, i);
      const AttentionResult result =
          attend(q, sequence_of(in.key, in.key_starts, i), sequence_of(in.value, in.key_starts, i), in.bias, rules,
                 seed + static_cast<std::uint64_t>(i));
      sequence_of(out, in.query_starts, i).copy_(result.output);
      if (lse.numel() > 0) rows_of(lse, in.query_starts, i, q.size(2), rows).copy_(result.logsumexp);
    }
  });
}

struct Saved {
  Tensor output, logsumexp, state;
};

void launch_backward(const char* name, const Tensor& grad_output, const Packed& packed, const Saved& saved,
                     const AttentionRules& rules, Rows rows, const AttentionGradients& gradients) {
  Operands with;
  const Packed in = packed.aliased(with);
  const Tensor gradient = with.read(grad_output), out = with.read(saved.output), lse = with.read(saved.logsumexp);
  const Tensor state = rules.dropout > 0 ? with.read(saved.state) : Tensor();
  const Tensor gq = with.write(gradients.query), gk = with.write(gradients.key), gv = with.write(gradients.value);
  const Tensor gb = with.write(gradients.bias);
  launch(name, with, [=] {
    const std::uint64_t seed = state.defined() ? seed_in(state) : 0;
    for (const Tensor& to : {gq, gk, gv}) to.zero_();  // tokens that no sequence has
    for (std::int64_t i = 0; i < in.sequences(); ++i) {
      const auto of_queries = [&](const Tensor& tensor) { return sequence_of(tensor, in.query_starts, i); };
      const auto of_keys = [&](const Tensor& tensor) { return sequence_of(tensor, in.key_starts, i); };
      const Tensor q = of_queries(in.query);
      const AttentionResult forward = {of_queries(out), rows_of(lse, in.query_starts, i, q.size(2), rows)};
      const AttentionGradients result =
          attend_backward(of_queries(gradient), q, of_keys(in.key), of_keys(in.value), in.bias, forward, rules,
                          seed + static_cast<std::uint64_t>(i), gb.defined());
      of_queries(gq).copy_(result.query);
      of_keys(gk).copy_(result.key);
      of_keys(gv).copy_(result.value);
      if (gb.defined()) gb.copy_(result.bias);
    }
  });
}

AttentionRules flash_rules(double dropout, bool is_causal, std::optional<double> scale,
                           const std::optional<c10::SymInt>& left, const std::optional<c10::SymInt>& right) {
  AttentionRules rules;
  rules.dropout = dropout;
  rules.scale = scale;
  rules.causal = is_causal ? Causal::kLowerRight : Causal::kNo;
  rules.window_left = left ? left->expect_int() : -1;
  rules.window_right = right ? right->expect_int() : -1;
  return rules;
}

/// output, logsumexp, state, unused, debug mask.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& query_starts,
    const OptionalTensor& key_starts, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
    bool return_debug_mask, std::optional<double> scale, std::optional<c10::SymInt> window_left,
    std::optional<c10::SymInt> window_right, const OptionalTensor& used_keys, const OptionalTensor& slopes) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask && !is_given(used_keys) && !is_given(slopes),
                              "emulated CUDA: _flash_attention_forward has no debug mask, seqused_k or alibi_slopes; "
                              "leave them off");
  const std::uint64_t seed = dropout > 0 ? reserve_random() : 0;
  const Tensor output = empty_preserving(query), state = empty({2}, at::kUInt64);
  const Tensor unused = empty(at::IntArrayRef{}, at::kUInt64);
  const Tensor logsumexp = is_given(query_starts) ? empty({query.size(-2), query.size(0)}, at::kFloat)
                                                  : empty({query.size(0), query.size(-2), query.size(1)}, at::kFloat);
  launch_forward("_flash_attention_forward", {query, key, value, std::nullopt, query_starts, key_starts},
                 flash_rules(dropout, is_causal, scale, window_left, window_right), Rows::kByToken, seed, output,
                 logsumexp, state);
  return {output, logsumexp, state, unused, empty({0}, query.scalar_type())};
}

/// The same with the arguments that torch 2.15 has in addition: keys and values in pages, and how to split the work.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward_of_pages(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& query_starts,
    const OptionalTensor& key_starts, c10::SymInt max_q, c10::SymInt max_k, double dropout, bool is_causal,
    bool return_debug_mask, std::optional<double> scale, std::optional<c10::SymInt> window_left,
    std::optional<c10::SymInt> window_right, const OptionalTensor& used_keys, const OptionalTensor& slopes,
    const OptionalTensor& page_table, std::optional<std::int64_t> /*splits*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_given(page_table),
      "emulated CUDA: _flash_attention_forward has no block_table; pass keys and values unpaged");
  return flash_forward(query, key, value, query_starts, key_starts, std::move(max_q), std::move(max_k), dropout,
                       is_causal, return_debug_mask, scale, std::move(window_left), std::move(window_right), used_keys,
                       slopes);
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& grad_output, const Tensor& query, const Tensor& key,
                                                  const Tensor& value, const Tensor& output, const Tensor& logsumexp,
                                                  const Tensor& query_starts, const Tensor& key_starts,
                                                  c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout,
                                                  bool is_causal, const Tensor& state, const Tensor& /*unused*/,
                                                  std::optional<double> scale, std::optional<c10::SymInt> window_left,
                                                  std::optional<c10::SymInt> window_right) {
  const AttentionGradients gradients = {empty_preserving(query), empty_preserving(key), empty_preserving(value), {}};
  launch_backward("_flash_attention_backward", grad_output, {query, key, value, std::nullopt, query_starts, key_starts},
                  {output, logsumexp, state}, flash_rules(dropout, is_causal, scale, window_left, window_right),
                  Rows::kByToken, gradients);
  return {gradients.query, gradients.key, gradients.value};
}

/// cutlass's custom_mask_type: 0 none, 1 causal from the upper left, 2 from the lower right.
AttentionRules efficient_rules(double dropout, std::int64_t mask, std::optional<double> scale) {
  AttentionRules rules;
  rules.dropout = dropout;
  rules.scale = scale;
  rules.causal = mask == 1 ? Causal::kUpperLeft : mask == 2 ? Causal::kLowerRight : Causal::kNo;
  return rules;
}

/// cutlass's packed tensors have a batch of one in front.
Packed efficient_inputs(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                        const OptionalTensor& query_starts, const OptionalTensor& key_starts) {
  if (!is_given(query_starts)) return {query, key, value, bias, std::nullopt, std::nullopt};
  return {query.squeeze(0), key.squeeze(0), value.squeeze(0), bias, query_starts, key_starts};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
    const OptionalTensor& query_starts, const OptionalTensor& key_starts, std::optional<c10::SymInt> max_q,
    std::optional<c10::SymInt> max_k, double dropout, std::int64_t mask, bool compute_logsumexp,
    std::optional<double> scale, const OptionalTensor& key_lengths, std::optional<std::int64_t> window) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_given(key_lengths) && window.value_or(0) <= 0,
                              "emulated CUDA: _efficient_attention_forward has no seqlen_k or window_size; use a bias");
  const bool packed = is_given(query_starts);
  const std::int64_t queries = packed && max_q ? max_q->expect_int() : query.size(1);
  const std::int64_t keys = max_k ? max_k->expect_int() : key.size(1);
  const std::int64_t rows = compute_logsumexp ? round_up(queries, kLogsumexpAlignment) : 0;
  const std::uint64_t seed = dropout > 0 ? reserve_random() : 0;
  const auto on_cpu = at::TensorOptions().dtype(at::kLong).device(at::kCPU);
  const Tensor state =
      dropout > 0 ? at::scalar_tensor(static_cast<std::int64_t>(seed), on_cpu) : empty(at::IntArrayRef{}, at::kLong);
  const Tensor offset = dropout > 0 ? at::scalar_tensor(0, on_cpu) : empty(at::IntArrayRef{}, at::kLong);
  const Tensor output = empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.scalar_type());
  const std::int64_t batch = packed ? query_starts->numel() - 1 : query.size(0);
  const Tensor logsumexp = empty({batch, query.size(2), rows}, at::kFloat);
  launch_forward("_efficient_attention_forward", efficient_inputs(query, key, value, bias, query_starts, key_starts),
                 efficient_rules(dropout, mask, scale), Rows::kBySequence, seed, packed ? output.squeeze(0) : output,
                 logsumexp, state);
  return {output, logsumexp, state, offset, queries, keys};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad_output, const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
    const Tensor& output, const OptionalTensor& query_starts, const OptionalTensor& key_starts, c10::SymInt /*max_q*/,
    c10::SymInt /*max_k*/, const Tensor& logsumexp, double dropout, const Tensor& state, const Tensor& /*offset*/,
    std::int64_t mask, bool wants_bias, std::optional<double> scale, std::optional<std::int64_t> /*splits*/,
    std::optional<std::int64_t> window, bool shared_storage) {
  if (!grad_output.defined()) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(window.value_or(0) <= 0,
                              "emulated CUDA: _efficient_attention_backward has no window_size; use a bias");
  const auto dense = [](const Tensor& of) { return empty(of.sizes(), of.scalar_type()); };
  Tensor gq, gk, gv;
  if (shared_storage) {
    const Tensor all = empty({query.size(0), query.size(1), 3, query.size(2), query.size(3)}, query.scalar_type());
    gq = all.select(2, 0), gk = all.select(2, 1), gv = all.select(2, 2);
  } else {
    gq = dense(query), gk = dense(key), gv = dense(value);
  }
  const Tensor gb = wants_bias && is_given(bias) ? empty_with_padded_rows(*bias, kBiasAlignment) : Tensor();
  const bool packed = is_given(query_starts);
  const auto flat = [&](const Tensor& tensor) { return packed ? tensor.squeeze(0) : tensor; };
  launch_backward("_efficient_attention_backward", flat(grad_output),
                  efficient_inputs(query, key, value, bias, query_starts, key_starts), {flat(output), logsumexp, state},
                  efficient_rules(dropout, mask, scale), Rows::kBySequence, {flat(gq), flat(gk), flat(gv), gb});
  return {gq, gk, gv, gb};
}

bool has_page_tables() {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_flash_attention_forward", "");
  return op.schema().argumentIndexWithName("block_table").has_value();
}

}  // namespace

void register_packed_attention(OwnOps& ops) {
  if (has_page_tables())
    ops.add("_flash_attention_forward", flash_forward_of_pages);
  else
    ops.add("_flash_attention_forward", flash_forward);
  ops.add("_flash_attention_backward", flash_backward);
  ops.add("_efficient_attention_forward", efficient_forward);
  ops.add("_efficient_attention_backward", efficient_backward);
}

}  // namespace tensorpager::emulation
