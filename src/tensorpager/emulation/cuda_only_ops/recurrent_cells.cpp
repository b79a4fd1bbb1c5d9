// The fused cells under nn.LSTMCell and nn.GRUCell. Gates are computed in float and rounded at the end, as on CUDA.
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

Tensor empty_contiguous(const Tensor& like) { return empty(like.sizes(), like.scalar_type()); }

Tensor biased(const Tensor& gates, const OptionalTensor& bias) {
  return is_given(bias) ? widened(gates) + widened(*bias) : widened(gates);
}

/// hy, cy, and a workspace with the activated gates: input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Tensor hy = empty_contiguous(cx), cy = empty_contiguous(cx), workspace = empty_contiguous(input_gates);
  Operands with;
  const Tensor from_input = with.read(input_gates), from_hidden = with.read(hidden_gates), before = with.read(cx);
  const OptionalTensor b_input = with.read(input_bias), b_hidden = with.read(hidden_bias);
  const Tensor to_h = with.write(hy), to_c = with.write(cy), gates = with.write(workspace);
  launch("_thnn_fused_lstm_cell", with, [=] {
    const auto sums = (biased(from_hidden, b_hidden) + biased(from_input, b_input)).chunk(4, 1);
    const Tensor in = sums[0].sigmoid(), forget = sums[1].sigmoid(), cell = sums[2].tanh(), out = sums[3].sigmoid();
    const Tensor c = (forget * widened(before)).add_(in * cell);
    to_c.copy_(c);
    to_h.copy_(out * c.tanh());
    gates.copy_(at::cat({in, forget, cell, out}, 1));
  });
  return {hy, cy, workspace};
}

/// Gradients of the gates before activation, of cx and of the bias.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  const Tensor grad_gates = empty_contiguous(workspace), grad_cx = empty_contiguous(cx);
  const Tensor grad_bias = has_bias ? empty({workspace.size(1)}, workspace.scalar_type()) : Tensor();
  Operands with;
  const OptionalTensor of_h = with.read(grad_hy), of_c = with.read(grad_cy);
  const Tensor before = with.read(cx), after = with.read(cy), gates = with.read(workspace);
  const Tensor to_gates = with.write(grad_gates), to_cx = with.write(grad_cx), to_bias = with.write(grad_bias);
  launch("_thnn_fused_lstm_cell_backward", with, [=] {
    const auto activated = widened(gates).chunk(4, 1);
    const Tensor in = activated[0], forget = activated[1], cell = activated[2], out = activated[3];
    const Tensor squashed = widened(after).tanh();
    Tensor of_cell = is_given(of_c) ? widened(*of_c) : at::zeros_like(squashed), of_out = at::zeros_like(squashed);
    if (is_given(of_h)) {
      of_out = widened(*of_h) * squashed;
      of_cell = of_cell + widened(*of_h) * out * (1 - squashed * squashed);
    }
    to_gates.copy_(at::cat({of_cell * cell * (in * (1 - in)), of_cell * widened(before) * (forget * (1 - forget)),
                            of_cell * in * (1 - cell * cell), of_out * (out * (1 - out))},
                           1));
    to_cx.copy_(of_cell * forget);
    if (to_bias.defined()) to_bias.copy_(to_gates.sum(0));
  });
  return {grad_gates, grad_cx, grad_bias};
}

/// hy, and a workspace with reset, update, new, hx and the hidden part of new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Tensor hy = empty_contiguous(hx), workspace = empty({hx.size(0), hx.size(1) * 5}, hx.scalar_type());
  Operands with;
  const Tensor from_input = with.read(input_gates), from_hidden = with.read(hidden_gates), before = with.read(hx);
  const OptionalTensor b_input = with.read(input_bias), b_hidden = with.read(hidden_bias);
  const Tensor to_h = with.write(hy), saved = with.write(workspace);
  launch("_thnn_fused_gru_cell", with, [=] {
    const auto input = biased(from_input, b_input).chunk(3, 1), hidden = biased(from_hidden, b_hidden).chunk(3, 1);
    const Tensor reset = (input[0] + hidden[0]).sigmoid(), update = (input[1] + hidden[1]).sigmoid();
    const Tensor fresh = (input[2] + reset * hidden[2]).tanh(), h = widened(before);
    to_h.copy_(fresh + update * (h - fresh));
    saved.copy_(at::cat({reset, update, fresh, h, hidden[2]}, 1));
  });
  return {hy, workspace};
}

/// Gradients of the input gates, hidden gates, hx and both biases.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const std::int64_t batch = grad_hy.size(0), hidden = grad_hy.size(1);
  const at::ScalarType type = workspace.scalar_type();
  const Tensor grad_input = empty({batch, 3 * hidden}, type), grad_hidden = empty({batch, 3 * hidden}, type);
  const Tensor grad_hx = empty_contiguous(grad_hy);
  const Tensor input_bias = has_bias ? empty({3 * hidden}, type) : Tensor();
  const Tensor hidden_bias = has_bias ? empty({3 * hidden}, type) : Tensor();
  Operands with;
  const Tensor gradient = with.read(grad_hy), saved = with.read(workspace);
  const Tensor to_input = with.write(grad_input), to_hidden = with.write(grad_hidden), to_hx = with.write(grad_hx);
  const Tensor to_input_bias = with.write(input_bias), to_hidden_bias = with.write(hidden_bias);
  launch("_thnn_fused_gru_cell_backward", with, [=] {
    const auto parts = widened(saved).chunk(5, 1);
    const Tensor reset = parts[0], update = parts[1], fresh = parts[2], h = parts[3], hidden_part = parts[4];
    const Tensor g = widened(gradient);
    const Tensor of_update = g * (h - fresh) * update * (1 - update);
    const Tensor of_fresh = g * (1 - update) * (1 - fresh * fresh);
    const Tensor of_reset = of_fresh * hidden_part * reset * (1 - reset);
    to_input.copy_(at::cat({of_reset, of_update, of_fresh}, 1));
    to_hidden.copy_(at::cat({of_reset, of_update, of_fresh * reset}, 1));
    to_hx.copy_(g * update);
    if (!to_input_bias.defined()) return;
    to_input_bias.copy_(to_input.sum(0));
    to_hidden_bias.copy_(to_hidden.sum(0));
  });
  return {grad_input, grad_hidden, grad_hx, input_bias, hidden_bias};
}

}  // namespace

void register_recurrent_cells(OwnOps& ops) {
  ops.add("_thnn_fused_lstm_cell", lstm_cell);
  ops.add("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  ops.add("_thnn_fused_gru_cell", gru_cell);
  ops.add("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace tensorpager::emulation
