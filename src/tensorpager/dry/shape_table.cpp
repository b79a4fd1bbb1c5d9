#include "tensorpager/dry/shape_table.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tensorpager::dry {
namespace {

using torch::jit::Stack;

const at::Tensor& tensor(const Stack& arguments, std::size_t i) { return arguments[i].toTensor(); }

/// A result for each argument named: of the same type, sizes and, where they are dense, strides.
template <std::size_t... Arguments>
Stack like(const Stack& arguments) {
  return {c10::IValue(at::empty_like(tensor(arguments, Arguments)))...};
}

at::Tensor vector(std::int64_t size, const at::Tensor& like_type) { return at::empty({size}, like_type.options()); }

bool is_defined(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

/// Tensors of the type of the weights, which may be wider than the input's.
at::TensorOptions statistics_options(const at::Tensor& input, const c10::IValue& weight) {
  return is_defined(weight) ? weight.toTensor().options() : input.options();
}

Stack batch_norm_of(const Stack& arguments, bool training) {
  const at::Tensor& input = tensor(arguments, 0);
  const at::TensorOptions options = statistics_options(input, arguments[1]);
  const std::int64_t channels = training ? input.size(1) : 0;
  return {at::empty(input.sizes(), input.options(), input.suggest_memory_format()), at::empty({channels}, options),
          at::empty({channels}, options)};
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, ...).
Stack batch_norm(const Stack& arguments) { return batch_norm_of(arguments, arguments[5].toBool()); }
/// _native_batch_norm_legit.no_stats(input, weight, bias, training, ...).
Stack batch_norm_without_state(const Stack& arguments) { return batch_norm_of(arguments, true); }

/// native_batch_norm_backward(grad_out, input, weight, ..., output_mask), the mask at 9.
Stack batch_norm_backward(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 1);
  const auto mask = arguments[9].toBoolList();
  const at::TensorOptions options = statistics_options(input, arguments[2]);
  return {mask.get(0) ? at::empty(input.sizes(), input.options(), input.suggest_memory_format()) : at::Tensor(),
          mask.get(1) ? at::empty({input.size(1)}, options) : at::Tensor(),
          mask.get(2) ? at::empty({input.size(1)}, options) : at::Tensor()};
}

/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask).
Stack layer_norm_backward(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 1);
  const auto sizes = arguments[2].toIntVector();
  const auto mask = arguments[7].toBoolList();
  return {mask.get(0) ? at::empty_like(input) : at::Tensor(),
          mask.get(1) ? at::empty(sizes, input.options()) : at::Tensor(),
          mask.get(2) ? at::empty(sizes, input.options()) : at::Tensor()};
}

/// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
Stack group_norm_backward(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 1);
  const auto mask = arguments[9].toBoolList();
  const at::Tensor& of_channels = is_defined(arguments[4]) ? tensor(arguments, 4) : input;
  const std::int64_t channels = arguments[6].toInt();
  return {mask.get(0) ? at::empty(input.sizes(), input.options(), input.suggest_memory_format()) : at::Tensor(),
          mask.get(1) ? vector(channels, of_channels) : at::Tensor(),
          mask.get(2) ? vector(channels, of_channels) : at::Tensor()};
}

Stack native_dropout(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

/// nll_loss2d_forward(self, target, weight, reduction, ignore_index).
Stack nll_loss2d(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  const bool reduces = arguments[3].toInt() != at::Reduction::None;
  return {reduces ? at::empty({}, input.options()) : at::empty(tensor(arguments, 1).sizes(), input.options()),
          at::empty({}, input.options())};
}

/// f(input, target, ...), the reduction at `Reduction`. The single number is written over the first of the terms, and
/// keeps their storage.
template <std::size_t Reduction>
Stack loss(const Stack& arguments) {
  const at::Tensor terms = at::empty_like(tensor(arguments, 0));
  if (arguments[Reduction].toInt() != at::Reduction::None) terms.resize_({});
  return {terms};
}

/// f(input, target, reduction, ...), by ops for each part.
Stack huber_loss(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  if (arguments[2].toInt() != at::Reduction::None) return {at::empty({}, input.options())};
  return {at::empty_like(input)};
}

template <std::size_t... Arguments>
Stack contiguous_like(const Stack& arguments) {
  return {c10::IValue(at::empty(tensor(arguments, Arguments).sizes(), tensor(arguments, Arguments).options()))...};
}

/// pixel_shuffle(self, factor).
Stack pixel_shuffle(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  const std::int64_t factor = arguments[1].toInt();
  std::vector<std::int64_t> sizes = input.sizes().vec();
  const std::size_t channels = sizes.size() - 3;
  sizes[channels] /= factor * factor;
  sizes[channels + 1] *= factor;
  sizes[channels + 2] *= factor;
  return {at::empty(sizes, input.options(), input.suggest_memory_format())};
}

/// reflection_pad2d(self, (left, right, top, bottom)).
Stack pad2d(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  const auto padding = arguments[1].toIntVector();
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes[sizes.size() - 1] += padding[0] + padding[1];
  sizes[sizes.size() - 2] += padding[2] + padding[3];
  return {at::empty(sizes, input.options(), input.suggest_memory_format())};
}

/// embedding_dense_backward(grad_output, indices, num_weights, ...).
Stack embedding_backward(const Stack& arguments) {
  const at::Tensor& gradient = tensor(arguments, 0);
  return {at::empty({arguments[2].toInt(), gradient.size(-1)}, gradient.options())};
}

/// index_select(self, dim, index).
Stack index_select(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  std::vector<std::int64_t> sizes = input.sizes().vec();
  if (!sizes.empty())
    sizes[static_cast<std::size_t>(at::maybe_wrap_dim(arguments[1].toInt(), input.dim()))] =
        tensor(arguments, 2).numel();
  return {at::empty(sizes, input.options())};
}

/// where(condition, self, other), of the same shape in the end.
Stack where(const Stack& arguments) {
  const at::Tensor &yes = tensor(arguments, 1), &no = tensor(arguments, 2);
  const at::Tensor both = at::add(at::empty_like(yes), at::empty_like(no));  // strides and type as of any binary op
  return {
      at::add(both, at::empty_like(tensor(arguments, 0), tensor(arguments, 0).options().dtype(both.scalar_type())))};
}

Stack single_number(const Stack& arguments) { return {at::empty({}, tensor(arguments, 0).options())}; }

at::Tensor reduced(const Stack& arguments) {  // (self, dim, correction, keepdim)
  const at::Tensor& input = tensor(arguments, 0);
  const std::vector<std::int64_t> dims =
      arguments[1].isNone() ? std::vector<std::int64_t>() : arguments[1].toIntVector();
  return at::sum(input, dims, arguments[3].toBool());
}
Stack variance(const Stack& arguments) { return {reduced(arguments)}; }
Stack variance_and_mean(const Stack& arguments) { return {reduced(arguments), reduced(arguments)}; }

/// _adaptive_avg_pool2d(self, output_size).
Stack adaptive_pool2d(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  std::vector<std::int64_t> sizes = input.sizes().vec();
  const auto output = arguments[1].toIntVector();
  std::copy(output.begin(), output.end(), sizes.end() - 2);
  return {at::empty(sizes, input.options(), input.suggest_memory_format())};
}

/// _ctc_loss(log_probs, targets, input_lengths, target_lengths, ...).
Stack ctc_loss(const Stack& arguments) {
  const at::Tensor& input = tensor(arguments, 0);
  const auto lengths = arguments[3].toIntVector();
  const std::int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  return {at::empty({input.size(1)}, input.options()),
          at::empty({input.size(1), input.size(0), 2 * longest + 1}, input.options())};
}

/// grid_sampler_2d(input, grid, ...).
Stack grid_sampler(const Stack& arguments) {
  const at::Tensor &input = tensor(arguments, 0), &grid = tensor(arguments, 1);
  return {at::empty({input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.options(),
                    input.suggest_memory_format())};
}

constexpr std::pair<std::string_view, ShapeFunction> kTable[] = {
    {"aten::convolution", &convolution_shapes},
    {"aten::convolution_backward", &convolution_backward_shapes},
    {"aten::mkldnn_rnn_layer", &rnn_layer_shapes},
    {"aten::mkldnn_rnn_layer_backward", &rnn_layer_backward_shapes},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &attention_shapes},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward_shapes},
    {"aten::native_batch_norm", &batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", &batch_norm_without_state},
    {"aten::native_batch_norm_backward", &batch_norm_backward},
    {"aten::native_layer_norm_backward", &layer_norm_backward},
    {"aten::native_group_norm_backward", &group_norm_backward},
    {"aten::native_dropout", &native_dropout},
    {"aten::native_dropout_backward", &like<0>},
    {"aten::nll_loss2d_forward", &nll_loss2d},
    {"aten::nll_loss2d_backward", &like<1>},
    {"aten::binary_cross_entropy", &loss<3>},
    {"aten::binary_cross_entropy_backward", &like<1>},
    {"aten::mse_loss", &loss<2>},
    {"aten::smooth_l1_loss", &loss<2>},
    {"aten::huber_loss", &huber_loss},
    {"aten::mse_loss_backward", &like<1>},
    {"aten::_ctc_loss", &ctc_loss},
    {"aten::_ctc_loss_backward", &like<1>},
    {"aten::embedding_dense_backward", &embedding_backward},
    {"aten::index_select", &index_select},
    {"aten::where.self", &where},
    {"aten::flip", &like<0>},
    {"aten::roll", &like<0>},
    {"aten::relu", &like<0>},
    {"aten::hardtanh", &like<0>},
    {"aten::hardtanh_backward", &like<0>},
    {"aten::hardswish", &like<0>},
    {"aten::hardswish_backward", &like<0>},
    {"aten::log_sigmoid_forward", &contiguous_like<0, 0>},
    {"aten::log_sigmoid_backward", &like<0>},
    {"aten::_prelu_kernel", &like<0>},
    {"aten::_prelu_kernel_backward", &like<1, 1>},
    {"aten::glu_backward", &contiguous_like<1>},
    {"aten::pixel_shuffle", &pixel_shuffle},
    {"aten::reflection_pad2d", &pad2d},
    {"aten::reflection_pad2d_backward", &like<1>},
    {"aten::max", &single_number},
    {"aten::min", &single_number},
    {"aten::dot", &single_number},
    {"aten::trace", &single_number},
    {"aten::var.correction", &variance},
    {"aten::std.correction", &variance},
    {"aten::var_mean.correction", &variance_and_mean},
    {"aten::std_mean.correction", &variance_and_mean},
    {"aten::_adaptive_avg_pool2d", &adaptive_pool2d},
    {"aten::_adaptive_avg_pool2d_backward", &like<1>},
    {"aten::grid_sampler_2d", &grid_sampler},
    {"aten::_weight_norm_interface", &like<0, 1>},
};

}  // namespace

ShapeFunction find_shape_function(std::string_view name) {
  const auto* found = std::ranges::find(kTable, name, &std::pair<std::string_view, ShapeFunction>::first);
  return found == std::end(kTable) ? nullptr : found->second;
}

}  // namespace tensorpager::dry
