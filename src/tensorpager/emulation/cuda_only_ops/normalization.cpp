#include <array>
#include <numeric>
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

/// cuDNN's reserve of a batch norm without fused activation: it has no bytes.
Tensor empty_reserve() { return empty({0}, at::kByte); }

std::tuple<Tensor, Tensor, Tensor, Tensor> cudnn_batch_norm(const Tensor& input, const Tensor& weight,
                                                            const OptionalTensor& bias,
                                                            const OptionalTensor& running_mean,
                                                            const OptionalTensor& running_var, bool training,
                                                            double momentum, double epsilon) {
  const std::int64_t saved = training ? input.size(1) : 0;
  const Tensor output = empty_in_own_format(input);
  const Tensor save_mean = empty({saved}, weight.scalar_type()), save_var = empty({saved}, weight.scalar_type());
  Operands with;
  const Tensor x = with.read(input), w = with.read(weight);
  const OptionalTensor b = with.read(bias);
  const OptionalTensor mean = with.alias(running_mean, training), var = with.alias(running_var, training);
  const Tensor y = with.write(output), m = with.write(save_mean), v = with.write(save_var);
  launch("cudnn_batch_norm", with, [=] {
    const auto [out, batch_mean, batch_invstd] = at::native_batch_norm(x, w, b, mean, var, training, momentum, epsilon);
    y.copy_(out);
    if (!training) return;
    m.copy_(batch_mean);
    v.copy_(batch_invstd);
  });
  return {output, save_mean, save_var, empty_reserve()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_batch_norm_backward(const Tensor& input, const Tensor& grad_output,
                                                             const Tensor& weight, const OptionalTensor& running_mean,
                                                             const OptionalTensor& running_var,
                                                             const OptionalTensor& save_mean,
                                                             const OptionalTensor& save_var, double epsilon,
                                                             const Tensor& /*reserve*/) {
  const Tensor grad_input = empty_in_own_format(input);
  const Tensor grad_weight = empty(weight.sizes(), weight.scalar_type());
  const Tensor grad_bias = empty(weight.sizes(), weight.scalar_type());
  Operands with;
  const Tensor x = with.read(input), gradient = with.read(grad_output), w = with.read(weight);
  const OptionalTensor mean = with.read(running_mean), var = with.read(running_var);
  const OptionalTensor m = with.read(save_mean), v = with.read(save_var);
  const Tensor gx = with.write(grad_input), gw = with.write(grad_weight), gb = with.write(grad_bias);
  launch("cudnn_batch_norm_backward", with, [=] {
    const auto [dx, dw, db] =
        at::native_batch_norm_backward(gradient, x, w, mean, var, m, v, true, epsilon, {true, true, true});
    gx.copy_(dx);
    gw.copy_(dw);
    gb.copy_(db);
  });
  return {grad_input, grad_weight, grad_bias};
}

/// With h = x * rstd, N elements a row and d = gradient * weight: dx = (d - h * sum(d * h) / N) * rstd.
std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad_output, const Tensor& input,
                                                   at::IntArrayRef normalized_shape, const Tensor& rstd,
                                                   const OptionalTensor& weight, std::array<bool, 2> wanted) {
  const Tensor grad_input = wanted[0] ? empty(input.sizes(), input.scalar_type()) : Tensor();
  const Tensor grad_weight = wanted[1] && is_given(weight) ? empty(weight->sizes(), weight->scalar_type()) : Tensor();
  const std::int64_t outer_count = input.dim() - static_cast<std::int64_t>(normalized_shape.size());
  Operands with;
  const Tensor gradient = with.read(grad_output), x = with.read(input), r = with.read(rstd);
  const OptionalTensor w = with.read(weight);
  const Tensor gx = with.write(grad_input), gw = with.write(grad_weight);
  launch("_fused_rms_norm_backward", with, [=] {
    std::vector<std::int64_t> outer(static_cast<std::size_t>(outer_count));
    std::vector<std::int64_t> inner(static_cast<std::size_t>(x.dim() - outer_count));
    std::iota(outer.begin(), outer.end(), 0);
    std::iota(inner.begin(), inner.end(), outer_count);
    std::vector<std::int64_t> row_shape(x.sizes().begin(), x.sizes().begin() + outer_count);
    row_shape.resize(static_cast<std::size_t>(x.dim()), 1);
    const Tensor rows = widened(r).reshape(row_shape);
    const Tensor normalized = widened(x) * rows, wide = widened(gradient);
    if (gx.defined()) {
      const Tensor d = w ? wide * widened(*w) : wide;
      gx.copy_((d - normalized * (d * normalized).mean(inner, true)) * rows);
    }
    if (gw.defined()) gw.copy_(outer.empty() ? wide * normalized : (wide * normalized).sum(outer));
  });
  return {grad_input, grad_weight};
}

}  // namespace

void register_normalization(OwnOps& ops) {
  ops.add("cudnn_batch_norm", cudnn_batch_norm);
  ops.add("cudnn_batch_norm_backward", cudnn_batch_norm_backward);
  ops.add("_fused_rms_norm_backward", fused_rms_norm_backward);
  register_sync_batch_norm(ops);
}

}  // namespace tensorpager::emulation
