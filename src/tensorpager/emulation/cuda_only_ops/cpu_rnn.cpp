#include "tensorpager/emulation/cuda_only_ops/cpu_rnn.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

RnnState run_packed(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx,
                    const Tensor& cx, std::int64_t layers) {
  const Tensor sizes = at::tensor(shape.batch_sizes, at::kLong);
  const bool biases = shape.has_biases(), both = shape.bidirectional;
  if (shape.mode == RnnMode::kLstm) {
    const auto [y, h, c] = at::lstm(input, sizes, {hx, cx}, weights, biases, layers, 0, false, both);
    return {y, h, c};
  }
  std::tuple<Tensor, Tensor> result;
  switch (shape.mode) {
    case RnnMode::kGru:
      result = at::gru(input, sizes, hx, weights, biases, layers, 0, false, both);
      break;
    case RnnMode::kTanh:
      result = at::rnn_tanh(input, sizes, hx, weights, biases, layers, 0, false, both);
      break;
    default:
      result = at::rnn_relu(input, sizes, hx, weights, biases, layers, 0, false, both);
  }
  return {std::get<0>(result), std::get<1>(result), Tensor()};
}

RnnState run_padded(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx,
                    const Tensor& cx, std::int64_t layers) {
  const bool biases = shape.has_biases(), both = shape.bidirectional, first = shape.batch_first;
  if (shape.mode == RnnMode::kLstm) {
    const auto [y, h, c] = at::lstm(input, {hx, cx}, weights, biases, layers, 0, false, both, first);
    return {y, h, c};
  }
  std::tuple<Tensor, Tensor> result;
  switch (shape.mode) {
    case RnnMode::kGru:
      result = at::gru(input, hx, weights, biases, layers, 0, false, both, first);
      break;
    case RnnMode::kTanh:
      result = at::rnn_tanh(input, hx, weights, biases, layers, 0, false, both, first);
      break;
    default:
      result = at::rnn_relu(input, hx, weights, biases, layers, 0, false, both, first);
  }
  return {std::get<0>(result), std::get<1>(result), Tensor()};
}

RnnState run_layers(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx,
                    const Tensor& cx, std::int64_t layers) {
  return shape.packed() ? run_packed(shape, input, weights, hx, cx, layers)
                        : run_padded(shape, input, weights, hx, cx, layers);
}

/// A layer at a time, with a mask of its own on each layer's output but the last one's.
RnnState run_with_dropout(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights,
                          const Tensor& hx, const Tensor& cx, std::uint64_t seed) {
  const double keep = 1 - shape.dropout;
  const std::int64_t directions = shape.directions(), weights_per_layer = directions * shape.weights_per_direction;
  Tensor between = input;
  std::vector<Tensor> hidden, cell;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto from = weights.begin() + layer * weights_per_layer;
    const RnnState state =
        run_layers(shape, between, {from, from + weights_per_layer}, hx.narrow(0, layer * directions, directions),
                   cx.defined() ? cx.narrow(0, layer * directions, directions) : cx, 1);
    hidden.push_back(state.hidden);
    cell.push_back(state.cell);
    between = state.output;
    if (layer + 1 == shape.layers) break;
    const Tensor kept = at::empty(between.sizes(), between.options())
                            .bernoulli_(keep, generator_of(seed + static_cast<std::uint64_t>(layer)));
    between = between * kept.mul_(keep == 0 ? 0 : 1 / keep);
  }
  return {between, at::cat(hidden), cx.defined() ? at::cat(cell) : Tensor()};
}

Tensor widened_leaf(const Tensor& tensor) {
  return widened(tensor).clone(at::MemoryFormat::Contiguous).detach().requires_grad_(true);
}

/// Autograd inside a late kernel, where it is off: its keys are let through again. To include all of them would take
/// ops of plain tensors to AutogradNestedTensor.
struct AutogradOn {
  c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard keys{now.included_, now.excluded_ - c10::autograd_dispatch_keyset -
                                                           c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)};
  at::AutoGradMode mode{true};
};

}  // namespace

RnnState run_rnn(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx,
                 const std::optional<Tensor>& cx, std::uint64_t seed) {
  std::vector<Tensor> wide;
  wide.reserve(weights.size());
  for (const Tensor& weight : weights) wide.push_back(widened(weight));
  const Tensor cell = is_given(cx) ? widened(*cx) : Tensor();
  if (shape.drops()) return run_with_dropout(shape, widened(input), wide, widened(hx), cell, seed);
  return run_layers(shape, widened(input), wide, widened(hx), cell, shape.layers);
}

RnnGradients differentiate_rnn(const RnnShape& shape, const Tensor& input, const std::vector<Tensor>& weights,
                               const Tensor& hx, const std::optional<Tensor>& cx, std::uint64_t seed,
                               const std::array<std::optional<Tensor>, 3>& grad_output_hidden_cell) {
  const AutogradOn autograd;
  std::vector<Tensor> leaves = {widened_leaf(input), widened_leaf(hx)};
  const std::optional<Tensor> cell = is_given(cx) ? std::optional(widened_leaf(*cx)) : std::nullopt;
  if (cell) leaves.push_back(*cell);
  std::vector<Tensor> wide;
  for (const Tensor& weight : weights) wide.push_back(widened_leaf(weight));
  const std::size_t first_weight = leaves.size();
  leaves.insert(leaves.end(), wide.begin(), wide.end());

  const RnnState state = run_rnn(shape, leaves[0], wide, leaves[1], cell, seed);
  const std::array<Tensor, 3> results = {state.output, state.hidden, state.cell};
  std::vector<Tensor> outputs, gradients;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_given(grad_output_hidden_cell[i]) || !results[i].defined()) continue;
    outputs.push_back(results[i]);
    gradients.push_back(widened(*grad_output_hidden_cell[i]).contiguous());
  }
  const std::vector<Tensor> found =
      torch::autograd::grad(outputs, leaves, gradients, std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  return {found[0],
          found[1],
          cell ? found[2] : Tensor(),
          {found.begin() + static_cast<std::ptrdiff_t>(first_weight), found.end()}};
}

}  // namespace tensorpager::emulation
