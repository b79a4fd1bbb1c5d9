#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tensorpager/dry/shape_table.h"

namespace tensorpager::dry {
namespace {

std::int64_t at_most_last(const std::vector<std::int64_t>& list, std::size_t i) {
  return list[std::min(i, list.size() - 1)];
}

/// The format that oneDNN's convolutions and torch's own use: channels last if either operand is.
at::MemoryFormat format_of(const at::Tensor& input, const at::Tensor& weight) {
  const auto has = [&](at::MemoryFormat format) {
    return input.suggest_memory_format() == format || weight.suggest_memory_format() == format;
  };
  if (input.dim() == 4 && has(at::MemoryFormat::ChannelsLast)) return at::MemoryFormat::ChannelsLast;
  if (input.dim() == 5 && has(at::MemoryFormat::ChannelsLast3d)) return at::MemoryFormat::ChannelsLast3d;
  return at::MemoryFormat::Contiguous;
}

bool is_supported(const char* query) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(query, "").typed<bool()>().call();
}

/// Whether this processor runs convolutions of this type by oneDNN.
bool has_onednn_kernels(at::ScalarType type) {
  static const bool has_bfloat16 = is_supported("mkldnn::_is_mkldnn_bf16_supported");
  static const bool has_half = is_supported("mkldnn::_is_mkldnn_fp16_supported");
  return type == at::kFloat || (type == at::kBFloat16 && has_bfloat16) || (type == at::kHalf && has_half);
}

/// Torch's own kernels give it the strides of the weight where these are of their format too, as those of a 1x1 weight
/// are of any; oneDNN's never do.
at::Tensor gradient_of_weight(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = format_of(input, weight);
  if (!has_onednn_kernels(weight.scalar_type()) && weight.is_contiguous(format))
    return at::empty_strided(weight.sizes(), weight.strides(), weight.options());
  return at::empty(weight.sizes(), weight.options(), format);
}

}  // namespace

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
torch::jit::Stack convolution_shapes(const torch::jit::Stack& arguments) {
  const at::Tensor &input = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const auto stride = arguments[3].toIntVector(), padding = arguments[4].toIntVector();
  const auto dilation = arguments[5].toIntVector(), output_padding = arguments[7].toIntVector();
  const bool transposed = arguments[6].toBool();
  std::vector<std::int64_t> sizes = {input.size(0),
                                     transposed ? weight.size(1) * arguments[8].toInt() : weight.size(0)};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d - 2);
    const std::int64_t reach = at_most_last(dilation, i) * (weight.size(d) - 1) + 1;
    const std::int64_t margin = 2 * at_most_last(padding, i);
    sizes.push_back(transposed ? (input.size(d) - 1) * at_most_last(stride, i) - margin + reach +
                                     at_most_last(output_padding, i)
                               : (input.size(d) + margin - reach) / at_most_last(stride, i) + 1);
  }
  return {at::empty(sizes, input.options(), format_of(input, weight))};
}

/// convolution_backward(grad_output, input, weight, bias_sizes, ..., output_mask).
torch::jit::Stack convolution_backward_shapes(const torch::jit::Stack& arguments) {
  const at::Tensor &gradient = arguments[0].toTensor(), &input = arguments[1].toTensor();
  const at::Tensor& weight = arguments[2].toTensor();
  const auto mask = arguments[10].toBoolList();
  const at::MemoryFormat format = format_of(input, weight);
  const std::int64_t outputs = gradient.size(1);
  return {mask.get(0) ? at::empty(input.sizes(), input.options(), format) : at::Tensor(),
          mask.get(1) ? gradient_of_weight(input, weight) : at::Tensor(),
          mask.get(2) ? at::empty({outputs}, gradient.options()) : at::Tensor()};
}

}  // namespace tensorpager::dry
