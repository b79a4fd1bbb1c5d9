// What SyncBatchNorm calls between its all-gathers: statistics of one part of a batch, and their combination.
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

std::vector<std::int64_t> all_but_channels(const Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

/// One value a channel, so that it broadcasts over `like`.
Tensor over_channels(const Tensor& values, const Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return widened(values).reshape(shape);
}

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double epsilon) {
  const at::ScalarType type = compute_type(input.scalar_type());
  const Tensor mean = empty({input.size(1)}, type), invstd = empty({input.size(1)}, type);
  Operands with;
  const Tensor x = with.read(input), m = with.write(mean), s = with.write(invstd);
  launch("batch_norm_stats", with, [=] {
    const auto [var, average] = at::var_mean(widened(x), all_but_channels(x), /*unbiased=*/false);
    m.copy_(average);
    s.copy_((var + epsilon).rsqrt());
  });
  return {mean, invstd};
}

/// Chan's formula over the parts, in their order, as CUDA's kernel has it. `mean` and `invstd` are [parts, channels].
void combine(const Tensor& mean, const Tensor& invstd, const Tensor& counts, double epsilon, Tensor& average,
             Tensor& squares, double& elements) {
  average = at::zeros_like(mean[0]);
  squares = at::zeros_like(mean[0]);
  elements = 0;
  for (std::int64_t part = 0; part < mean.size(0); ++part) {
    const double count = counts[part].item<double>();
    if (elements + count == 0) continue;
    const double factor = 1 / (elements + count);
    const Tensor deviation = invstd[part].reciprocal(), difference = average - mean[part];
    squares =
        squares + (deviation * deviation - epsilon) * count + difference * difference * (elements * count * factor);
    average = average * (elements * factor) + mean[part] * (count * factor);
    elements += count;
  }
}

std::tuple<Tensor, Tensor> gather_stats(const char* name, const Tensor& mean, const Tensor& invstd,
                                        const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                        double momentum, double epsilon, const Tensor& counts) {
  const at::ScalarType type = compute_type(mean.scalar_type());
  const Tensor all_mean = empty({mean.size(1)}, type), all_invstd = empty({mean.size(1)}, type);
  Operands with;
  const Tensor m = with.read(mean), s = with.read(invstd), each = with.read(counts);
  const OptionalTensor moving_mean = with.write(running_mean), moving_var = with.write(running_var);
  const Tensor to_mean = with.write(all_mean), to_invstd = with.write(all_invstd);
  launch(name, with, [=] {
    Tensor average, squares;
    double elements = 0;
    combine(widened(m), widened(s), each.reshape({-1}), epsilon, average, squares, elements);
    to_mean.copy_(average);
    to_invstd.copy_((squares / elements + epsilon).rsqrt());
    if (is_given(moving_mean)) moving_mean->copy_(widened(*moving_mean) * (1 - momentum) + average * momentum);
    if (is_given(moving_var))
      moving_var->copy_(widened(*moving_var) * (1 - momentum) + squares / (elements - 1) * momentum);
  });
  return {all_mean, all_invstd};
}

std::tuple<Tensor, Tensor> gather_stats_of_equal(const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd,
                                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                                 double momentum, double epsilon, std::int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  return gather_stats("batch_norm_gather_stats", mean, invstd, running_mean, running_var, momentum, epsilon, counts);
}

std::tuple<Tensor, Tensor> gather_stats_with_counts(const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd,
                                                    const OptionalTensor& running_mean,
                                                    const OptionalTensor& running_var, double momentum, double epsilon,
                                                    const Tensor& counts) {
  return gather_stats("batch_norm_gather_stats_with_counts", mean, invstd, running_mean, running_var, momentum, epsilon,
                      counts);
}

void launch_elements(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                     const Tensor& invstd, const Tensor& output) {
  Operands with;
  const Tensor x = with.read(input), m = with.read(mean), s = with.read(invstd), y = with.write(output);
  const OptionalTensor w = with.read(weight), b = with.read(bias);
  launch("batch_norm_elemt", with, [=] {
    Tensor scale = over_channels(s, x);
    if (is_given(w)) scale = scale * over_channels(*w, x);
    Tensor result = (widened(x) - over_channels(m, x)) * scale;
    if (is_given(b)) result = result + over_channels(*b, x);
    y.copy_(result);
  });
}

Tensor batch_norm_elements(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                           const Tensor& mean, const Tensor& invstd, double /*epsilon*/) {
  const Tensor output = empty_in_own_format(input);
  launch_elements(input, weight, bias, mean, invstd, output);
  return output;
}

Tensor& batch_norm_elements_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                const Tensor& mean, const Tensor& invstd, double /*epsilon*/, Tensor& output) {
  launch_elements(input, weight, bias, mean, invstd, output);
  return output;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad_output, const Tensor& input,
                                                           const Tensor& mean, const Tensor& invstd,
                                                           const OptionalTensor& weight, bool for_input,
                                                           bool for_weight, bool for_bias) {
  const at::ScalarType type = is_given(weight) ? weight->scalar_type() : mean.scalar_type();
  const auto channels = [&](bool wanted, at::ScalarType of) { return wanted ? empty({input.size(1)}, of) : Tensor(); };
  const Tensor sum_dy = channels(for_input, mean.scalar_type()), sum_dy_xmu = channels(for_input, mean.scalar_type());
  const Tensor grad_weight = channels(for_weight, type), grad_bias = channels(for_bias, type);
  Operands with;
  const Tensor gradient = with.read(grad_output), x = with.read(input), m = with.read(mean), s = with.read(invstd);
  const Tensor to_sum = with.write(sum_dy), to_product = with.write(sum_dy_xmu);
  const Tensor to_weight = with.write(grad_weight), to_bias = with.write(grad_bias);
  launch("batch_norm_backward_reduce", with, [=] {
    const std::vector<std::int64_t> dims = all_but_channels(x);
    const Tensor wide = widened(gradient), sum = wide.sum(dims);
    const Tensor product = (wide * (widened(x) - over_channels(m, x))).sum(dims);
    if (to_sum.defined()) to_sum.copy_(sum);
    if (to_product.defined()) to_product.copy_(product);
    if (to_weight.defined()) to_weight.copy_(product * widened(s));
    if (to_bias.defined()) to_bias.copy_(sum);
  });
  return {sum_dy, sum_dy_xmu, grad_weight, grad_bias};
}

Tensor backward_elements(const Tensor& grad_output, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                         const OptionalTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                         const Tensor& count) {
  const Tensor grad_input = empty_in_own_format(input);
  Operands with;
  const Tensor gradient = with.read(grad_output), x = with.read(input), m = with.read(mean), s = with.read(invstd);
  const Tensor dy = with.read(sum_dy), dy_xmu = with.read(sum_dy_xmu), counts = with.read(count);
  const OptionalTensor w = with.read(weight);
  const Tensor gx = with.write(grad_input);
  launch("batch_norm_backward_elemt", with, [=] {
    const double share = 1 / counts.sum().item<double>();
    const Tensor deviation = over_channels(s, x);
    const Tensor of_mean = over_channels(dy, x) * share;
    const Tensor of_variance = over_channels(dy_xmu, x) * share * deviation * deviation;
    const Tensor scale = is_given(w) ? deviation * over_channels(*w, x) : deviation;
    gx.copy_((widened(gradient) - of_mean - (widened(x) - over_channels(m, x)) * of_variance) * scale);
  });
  return grad_input;
}

}  // namespace

void register_sync_batch_norm(OwnOps& ops) {
  ops.add("batch_norm_stats", batch_norm_stats);
  ops.add("batch_norm_gather_stats", gather_stats_of_equal);
  ops.add("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  ops.add("batch_norm_elemt", batch_norm_elements);
  ops.add("batch_norm_elemt.out", batch_norm_elements_out);
  ops.add("batch_norm_backward_reduce", backward_reduce);
  ops.add("batch_norm_backward_elemt", backward_elements);
}

}  // namespace tensorpager::emulation
