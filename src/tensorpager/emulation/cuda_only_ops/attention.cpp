// The three attention kernels that F.scaled_dot_product_attention chooses from. Output layouts and scratch memory are
// those of torch 2.11 (_meta_registrations.py; flash_api.cpp for flash's).
#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/attention_math.h"
#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/roofline/op_work.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

/// output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, seed, offset (or unused), debug mask.
using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

constexpr std::int64_t kFlashRows = 128;  // flash's backward pass rounds the number of queries up to it

OptionalTensor optional_of(const Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }

/// [batch, heads, tokens, size] over memory in the order batch, tokens, heads, size.
Tensor empty_by_tokens(const Tensor& tokens_of, std::int64_t size) {
  return empty({tokens_of.size(0), tokens_of.size(2), tokens_of.size(1), size}, tokens_of.scalar_type())
      .transpose(1, 2);
}

/// The layout of `query` for other sizes, as cuDNN's output has it.
Tensor empty_with_layout_of(const Tensor& query, std::int64_t size) {
  if (query.size(3) == size) return empty_preserving(query);
  std::array<std::int64_t, 4> order = {0, 1, 2, 3}, sizes{}, places{};
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return query.stride(a) > query.stride(b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    sizes[i] = order[i] == 3 ? size : query.size(order[i]);
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return empty(sizes, query.scalar_type()).permute(places);
}

struct Inputs {
  Tensor query, key, value;
  OptionalTensor bias;
};

/// The work of `number` products of queries with keys or values, in all heads: multiplications and additions.
fake_cuda::Work products(const Inputs& inputs, std::uint64_t number) {
  const auto pairs = static_cast<std::uint64_t>(inputs.query.numel() * inputs.key.size(2));
  return {.flops = 2 * number * pairs,
          .op_class = base::OpClass::kAttention,
          .precision = roofline::precision_of(inputs.query)};
}

/// A forward pass into `output` and `logsumexp` ([batch, heads, at least as many as queries], or with no elements, or
/// with a last dimension of 1 behind the queries). `state`, if it is on the device, gets the seed.
void launch_forward(const char* name, const Inputs& inputs, const AttentionRules& rules, std::uint64_t seed,
                    const Tensor& output, const Tensor& logsumexp, const Tensor& state) {
  Operands with;
  const Tensor q = with.read(inputs.query), k = with.read(inputs.key), v = with.read(inputs.value);
  const OptionalTensor bias = with.read(inputs.bias);
  const Tensor out = with.write(output), lse = with.write(logsumexp);
  const Tensor seed_out = rules.dropout > 0 && state.defined() && state.is_cuda() ? with.write(state) : Tensor();
  launch(
      name, with,
      [=] {
        if (seed_out.defined()) put_seed(seed_out, seed);
        const AttentionResult result = attend(q, k, v, bias, rules, seed);
        out.copy_(result.output);
        if (!lse.defined() || lse.numel() == 0) return;
        if (lse.dim() == 4) {
          lse.squeeze(3).copy_(result.logsumexp);
        } else {
          lse.fill_(std::numeric_limits<float>::infinity());  // the padding
          lse.narrow(2, 0, q.size(2)).copy_(result.logsumexp);
        }
      },
      products(inputs, 2));
}

struct Saved {
  Tensor output, logsumexp, state;  // `state` holds the seed: on the CPU it is read now, on the device by the kernel
};

/// A backward pass into gradients of the inputs; the bias's may be absent. `scratch` is memory that the kernel on a GPU
/// writes to: here it only counts.
void launch_backward(const char* name, const Tensor& grad_output, const Inputs& inputs, const Saved& saved,
                     const AttentionRules& rules, const Inputs& gradients, std::initializer_list<Tensor> scratch) {
  Operands with;
  const Tensor gradient = with.read(grad_output), q = with.read(inputs.query), k = with.read(inputs.key);
  const Tensor v = with.read(inputs.value), out = with.read(saved.output), lse = with.read(saved.logsumexp);
  const OptionalTensor bias = with.read(inputs.bias);
  const Tensor state = rules.dropout > 0 ? with.read(saved.state) : Tensor();
  const Tensor gq = with.write(gradients.query), gk = with.write(gradients.key), gv = with.write(gradients.value);
  const OptionalTensor gb = with.write(gradients.bias);
  for (const Tensor& memory : scratch) with.write(memory);
  launch(
      name, with,
      [=] {
        const std::uint64_t seed = state.defined() ? seed_in(state) : 0;
        const Tensor rows = lse.dim() == 4 ? lse.squeeze(3) : lse.narrow(2, 0, q.size(2));
        const AttentionGradients result =
            attend_backward(gradient, q, k, v, bias, {out, rows}, rules, seed, is_given(gb));
        gq.copy_(result.query);
        gk.copy_(result.key);
        gv.copy_(result.value);
        if (is_given(gb)) gb->copy_(result.bias);
      },
      products(inputs, 5));
}

AttentionRules rules_of(double dropout, bool is_causal, std::optional<double> scale) {
  AttentionRules rules;
  rules.dropout = dropout;
  rules.scale = scale;
  rules.causal = is_causal ? Causal::kUpperLeft : Causal::kNo;
  return rules;
}

std::uint64_t seed_for(double dropout) { return dropout > 0 ? reserve_random() : 0; }

Tensor long_on_cpu(std::uint64_t value) {
  return at::scalar_tensor(static_cast<std::int64_t>(value), at::TensorOptions().dtype(at::kLong).device(at::kCPU));
}

/// The seed comes back on the CPU if there is dropout, as outside of a graph's capture on CUDA.
std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& query, const Tensor& key, const Tensor& value,
                                                     const OptionalTensor& bias, bool compute_logsumexp, double dropout,
                                                     bool is_causal, std::optional<double> scale) {
  const std::uint64_t seed = seed_for(dropout);
  const Tensor output = empty_by_tokens(query, value.size(3));
  const std::int64_t rows = compute_logsumexp ? round_up(query.size(2), kLogsumexpAlignment) : 0;
  const Tensor logsumexp = empty({query.size(0), query.size(1), rows}, at::kFloat);
  const Tensor state = dropout > 0 ? long_on_cpu(seed) : empty(at::IntArrayRef{}, at::kLong);
  const Tensor offset = dropout > 0 ? long_on_cpu(0) : empty(at::IntArrayRef{}, at::kLong);
  launch_forward("efficient_attention", {query, key, value, bias}, rules_of(dropout, is_causal, scale), seed, output,
                 logsumexp, state);
  return {output, logsumexp, state, offset};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad_output, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    const Tensor& output, const Tensor& logsumexp, const Tensor& seed, const Tensor& /*offset*/, double dropout,
    std::array<bool, 4> wanted, bool is_causal, std::optional<double> scale) {
  if (!grad_output.defined()) return {};
  const Tensor gq = empty_by_tokens(query, query.size(3)), gk = empty_by_tokens(key, key.size(3));
  const Tensor gv = empty_by_tokens(value, value.size(3));
  const Tensor gb = bias.defined() && wanted[3] ? empty_with_padded_rows(bias, kBiasAlignment) : Tensor();
  const Tensor gradient = scratch_for_contiguous(grad_output.transpose(1, 2));
  const Tensor delta = empty({query.size(0), query.size(1), query.size(2)}, at::kFloat);
  launch_backward("efficient_attention_backward", grad_output, {query, key, value, optional_of(bias)},
                  {output, logsumexp, seed}, rules_of(dropout, is_causal, scale), {gq, gk, gv, optional_of(gb)},
                  {gradient, delta});
  return {gq, gk, gv, gb};
}

Forward flash(const Tensor& query, const Tensor& key, const Tensor& value, double dropout, bool is_causal,
              bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!return_debug_mask, "emulated CUDA: flash attention has no debug mask; leave it off");
  const std::uint64_t seed = seed_for(dropout);
  const Tensor output = empty_preserving(query);
  const Tensor logsumexp = empty({query.size(0), query.size(1), query.size(2)}, at::kFloat);
  const Tensor state = empty({2}, at::kUInt64), unused = empty(at::IntArrayRef{}, at::kUInt64);
  launch_forward("flash_attention", {query, key, value, std::nullopt}, rules_of(dropout, is_causal, scale), seed,
                 output, logsumexp, state);
  return {output,   logsumexp,     Tensor(),
          Tensor(), query.size(2), key.size(2),
          state,    unused,        empty({0}, query.scalar_type())};
}

Gradients flash_backward(const Tensor& grad_output, const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& output, const Tensor& logsumexp, const Tensor& /*cum_seq_q*/,
                         const Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout,
                         bool is_causal, const Tensor& state, const Tensor& /*unused*/, std::optional<double> scale) {
  const Tensor gq = empty_preserving(query), gk = empty_preserving(key), gv = empty_preserving(value);
  const std::int64_t rows = round_up(query.size(2), kFlashRows);
  const std::int64_t head_size = round_up(query.size(3), query.size(3) <= 128 ? 32 : 64);
  const Tensor sums = empty({query.size(0), query.size(1), rows}, at::kFloat);
  const Tensor query_sums = empty({query.size(0), rows, query.size(1), head_size}, at::kFloat);
  const bool grouped = key.size(1) != query.size(1);
  const auto expanded = [&](const Tensor& of) {
    return grouped ? empty({of.size(0), of.size(2), query.size(1), of.size(3)}, of.scalar_type()) : Tensor();
  };
  const Tensor all_keys = expanded(key), all_values = expanded(value);
  const Tensor gradient = scratch_for_contiguous(grad_output.transpose(1, 2));
  launch_backward("flash_attention_backward", grad_output, {query, key, value, std::nullopt},
                  {output, logsumexp, state}, rules_of(dropout, is_causal, scale), {gq, gk, gv, std::nullopt},
                  {sums, query_sums, all_keys, all_values, gradient});
  return {gq, gk, gv};
}

Forward cudnn(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
              bool compute_logsumexp, double dropout, bool is_causal, bool /*return_debug_mask*/,
              std::optional<double> scale) {
  const std::uint64_t seed = seed_for(dropout);
  const Tensor output = empty_with_layout_of(query, value.size(3));
  const Tensor logsumexp =
      compute_logsumexp ? empty({query.size(0), query.size(1), query.size(2), 1}, at::kFloat) : Tensor();
  const Tensor state = empty(at::IntArrayRef{}, at::kLong), offset = empty(at::IntArrayRef{}, at::kLong);
  launch_forward("cudnn_attention", {query, key, value, bias}, rules_of(dropout, is_causal, scale), seed, output,
                 logsumexp, state);
  return {output, logsumexp, Tensor(), Tensor(), query.size(2), key.size(2), state, offset, Tensor()};
}

Gradients cudnn_backward(const Tensor& grad_output, const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& output, const Tensor& logsumexp, const Tensor& state, const Tensor& /*offset*/,
                         const Tensor& bias, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                         c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
                         std::optional<double> scale) {
  const Tensor gq = empty_preserving(query), gk = empty_preserving(key), gv = empty_preserving(value);
  launch_backward("cudnn_attention_backward", grad_output, {query, key, value, optional_of(bias)},
                  {output, logsumexp, state}, rules_of(dropout, is_causal, scale), {gq, gk, gv, std::nullopt}, {});
  return {gq, gk, gv};
}

}  // namespace

void register_attention(OwnOps& ops) {
  ops.add("_scaled_dot_product_efficient_attention", efficient);
  ops.add("_scaled_dot_product_efficient_attention_backward", efficient_backward);
  ops.add("_scaled_dot_product_flash_attention", flash);
  ops.add("_scaled_dot_product_flash_attention_backward", flash_backward);
  ops.add("_scaled_dot_product_cudnn_attention", cudnn);
  ops.add("_scaled_dot_product_cudnn_attention_backward", cudnn_backward);
  register_packed_attention(ops);
}

}  // namespace tensorpager::emulation
