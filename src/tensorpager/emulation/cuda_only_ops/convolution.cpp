// Convolutions that are ops of CUDA's own. A program's conv layers reach `convolution`, which is emulated whole; these
// are what compilers and TorchScript put in its place.
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/roofline/convolution_work.h"
#include "tensorpager/roofline/op_work.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

struct Geometry {
  std::vector<std::int64_t> stride, padding, dilation, output_padding;  // one for each spatial dimension
  bool transposed = false;
  std::int64_t groups = 1;
};

std::vector<std::int64_t> output_sizes(const Tensor& input, const Tensor& weight, const Geometry& of) {
  std::vector<std::int64_t> sizes = {input.size(0), of.transposed ? weight.size(1) * of.groups : weight.size(0)};
  for (std::size_t i = 0; i < of.stride.size(); ++i) {
    const std::int64_t dim = static_cast<std::int64_t>(i) + 2;
    const std::int64_t reach = of.dilation[i] * (weight.size(dim) - 1);
    sizes.push_back(of.transposed
                        ? (input.size(dim) - 1) * of.stride[i] - 2 * of.padding[i] + reach + of.output_padding[i] + 1
                        : (input.size(dim) + 2 * of.padding[i] - reach - 1) / of.stride[i] + 1);
  }
  return sizes;
}

/// cuDNN's outputs are channels-last if the input or the weight is.
at::MemoryFormat format_of(const Tensor& input, const Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

/// What is done to the result before it is rounded and stored.
struct Finish {
  OptionalTensor added;
  double alpha = 1;
  bool relu = false;
};

void launch_convolution(const char* name, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                        const Geometry& geometry, const Finish& finish, const Tensor& output) {
  Operands with;
  const Tensor x = with.read(input), w = with.read(weight), y = with.write(output);
  const OptionalTensor b = with.read(bias), added = with.read(finish.added);
  const double alpha = finish.alpha;
  const bool relu = finish.relu;
  launch(name, with,
         [=] {
           Tensor result = at::convolution(x, w, b, geometry.stride, geometry.padding, geometry.dilation,
                                           geometry.transposed, geometry.output_padding, geometry.groups);
           if (is_given(added)) result = result + *added * alpha;
           y.copy_(relu ? result.relu() : result);
         },
         {.flops = roofline::filters_at(geometry.transposed ? input : output, weight),
          .op_class = base::OpClass::kConvolution,
          .precision = roofline::precision_of(weight)});
}

Tensor convolve(const char* name, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                const Geometry& geometry, const Finish& finish = {}) {
  const Tensor output =
      empty_in_format(output_sizes(input, weight, geometry), format_of(input, weight), input.scalar_type());
  launch_convolution(name, input, weight, bias, geometry, finish, output);
  return output;
}

Geometry geometry_of(c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                     std::int64_t groups) {
  return {to_ints(stride), to_ints(padding), to_ints(dilation), std::vector<std::int64_t>(stride.size(), 0), false,
          groups};
}

Tensor cudnn_convolution(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef padding,
                         c10::SymIntArrayRef stride, c10::SymIntArrayRef dilation, c10::SymInt groups,
                         bool /*benchmark*/, bool /*deterministic*/, bool /*allow_tf32*/) {
  return convolve("cudnn_convolution", input, weight, std::nullopt,
                  geometry_of(stride, padding, dilation, groups.expect_int()));
}

Tensor cudnn_convolution_transpose(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef padding,
                                   c10::SymIntArrayRef output_padding, c10::SymIntArrayRef stride,
                                   c10::SymIntArrayRef dilation, c10::SymInt groups, bool /*benchmark*/,
                                   bool /*deterministic*/, bool /*allow_tf32*/) {
  Geometry geometry = geometry_of(stride, padding, dilation, groups.expect_int());
  geometry.output_padding = to_ints(output_padding);
  geometry.transposed = true;
  return convolve("cudnn_convolution_transpose", input, weight, std::nullopt, geometry);
}

Tensor cudnn_convolution_relu(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                              c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                              c10::SymInt groups) {
  return convolve("cudnn_convolution_relu", input, weight, bias,
                  geometry_of(stride, padding, dilation, groups.expect_int()), {std::nullopt, 1, true});
}

Tensor cudnn_convolution_add_relu(const Tensor& input, const Tensor& weight, const Tensor& added,
                                  const std::optional<at::Scalar>& alpha, const OptionalTensor& bias,
                                  c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                                  c10::SymInt groups) {
  return convolve("cudnn_convolution_add_relu", input, weight, bias,
                  geometry_of(stride, padding, dilation, groups.expect_int()),
                  {added, alpha ? alpha->toDouble() : 1, true});
}

/// One group a channel. CUDA's kernel writes contiguous outputs whatever its inputs are.
Tensor depthwise(const char* name, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                 const Geometry& geometry) {
  const Tensor output = empty(output_sizes(input, weight, geometry), input.scalar_type());
  launch_convolution(name, input, weight, bias, geometry, {}, output);
  return output;
}

Tensor depthwise_2d(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef /*kernel_size*/,
                    const OptionalTensor& bias, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                    c10::SymIntArrayRef dilation) {
  return depthwise("_conv_depthwise2d", input, weight, bias, geometry_of(stride, padding, dilation, input.size(1)));
}

Tensor depthwise_3d(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef /*kernel_size*/,
                    const OptionalTensor& bias, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                    c10::SymIntArrayRef dilation) {
  return depthwise("conv_depthwise3d", input, weight, bias, geometry_of(stride, padding, dilation, input.size(1)));
}

}  // namespace

void register_convolution(OwnOps& ops) {
  ops.add("cudnn_convolution", cudnn_convolution);
  ops.add("cudnn_convolution_transpose", cudnn_convolution_transpose);
  ops.add("cudnn_convolution_relu", cudnn_convolution_relu);
  ops.add("cudnn_convolution_add_relu", cudnn_convolution_add_relu);
  ops.add("_conv_depthwise2d", depthwise_2d);
  ops.add("conv_depthwise3d", depthwise_3d);
  register_matrix_products(ops);
}

}  // namespace tensorpager::emulation
