#include "tensorpager/roofline/op_work.h"

#include <ATen/Context.h>

#include <algorithm>
#include <iterator>

#include "tensorpager/roofline/attention_work.h"
#include "tensorpager/roofline/convolution_work.h"
#include "tensorpager/roofline/matrix_work.h"
#include "tensorpager/roofline/recurrent_work.h"

namespace tensorpager::roofline {
namespace {

struct Row {
  std::string_view op;
  std::uint64_t (*flops)(const OpCall& call);
};

// Numbers are places in the op's schema, which its overloads share.
constexpr Row kRows[] = {
    {"aten::mm", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::bmm", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::mv", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::dot", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::vdot", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::_scaled_mm", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::_int_mm", [](const OpCall& call) { return product_flops(call, 0); }},
    {"aten::addmm", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::addmm_", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::_addmm_activation", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::addmv", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::addmv_", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::addbmm", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::addbmm_", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::baddbmm", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::baddbmm_", [](const OpCall& call) { return product_flops(call, 1); }},
    {"aten::_grouped_mm", &grouped_product_flops},
    {"aten::_scaled_grouped_mm", &grouped_product_flops},
    {"aten::linear", &linear_flops},  // a composite of the above, except where a backend has one of its own
    {"aten::mkldnn_linear", &linear_flops},

    {"aten::convolution",
     [](const OpCall& call) {
       return convolution_flops(call, {.stride = 3, .padding = 4, .dilation = 5, .transposed = 6});
     }},
    {"aten::_convolution",
     [](const OpCall& call) {
       return convolution_flops(call, {.stride = 3, .padding = 4, .dilation = 5, .transposed = 6});
     }},
    {"aten::convolution_overrideable",
     [](const OpCall& call) {
       return convolution_flops(call, {.stride = 3, .padding = 4, .dilation = 5, .transposed = 6});
     }},
    {"aten::cudnn_convolution",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 3, .padding = 2, .dilation = 4}); }},
    {"aten::cudnn_convolution_relu",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 3, .padding = 4, .dilation = 5}); }},
    {"aten::cudnn_convolution_add_relu",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 5, .padding = 6, .dilation = 7}); }},
    {"aten::mkldnn_convolution",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 4, .padding = 3, .dilation = 5}); }},
    {"aten::_conv_depthwise2d",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 4, .padding = 5, .dilation = 6}); }},
    {"aten::conv_depthwise3d",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 4, .padding = 5, .dilation = 6}); }},
    {"aten::_slow_conv2d_forward",
     [](const OpCall& call) { return convolution_flops(call, {.stride = 4, .padding = 5}); }},
    {"aten::cudnn_convolution_transpose", &transposed_convolution_flops},
    {"aten::convolution_backward", [](const OpCall& call) { return convolution_backward_flops(call, 7, 10); }},
    {"aten::convolution_backward_overrideable",
     [](const OpCall& call) { return convolution_backward_flops(call, 6, 9); }},
    {"aten::_slow_conv2d_backward",
     [](const OpCall& call) { return convolution_backward_flops(call, std::nullopt, 6); }},

    {"aten::_scaled_dot_product_flash_attention", [](const OpCall& call) { return attention_flops(call, 4); }},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", [](const OpCall& call) { return attention_flops(call, 4); }},
    {"aten::_scaled_dot_product_fused_attention_overrideable",
     [](const OpCall& call) { return attention_flops(call, 5); }},
    {"aten::_scaled_dot_product_efficient_attention", [](const OpCall& call) { return attention_flops(call, 6); }},
    {"aten::_scaled_dot_product_cudnn_attention", [](const OpCall& call) { return attention_flops(call, 6); }},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     [](const OpCall& call) { return attention_backward_flops(call, 7); }},
    {"aten::_scaled_dot_product_flash_attention_backward",
     [](const OpCall& call) { return attention_backward_flops(call, 11); }},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     [](const OpCall& call) { return attention_backward_flops(call, 11); }},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     [](const OpCall& call) { return attention_backward_flops(call, 13); }},
    {"aten::_scaled_dot_product_cudnn_attention_backward",
     [](const OpCall& call) { return attention_backward_flops(call, 14); }},
    {"aten::_native_multi_head_attention",
     [](const OpCall& call) {
       return self_attention_flops(call, {5, 7});
     }},
    {"aten::_transformer_encoder_layer_fwd",
     [](const OpCall& call) {
       return self_attention_flops(call, {3, 5, 14, 16});
     }},

    // Backward passes have a product for the input's gradient and one for the weight's; the gates' values were kept.
    {"aten::_cudnn_rnn", [](const OpCall& call) { return recurrent_flops(call, 1, 2); }},
    {"aten::_cudnn_rnn_backward",
     [](const OpCall& call) { return recurrent_flops(call, 1, 2) * (call.wants(21, 3) ? 2 : 1); }},
    {"aten::mkldnn_rnn_layer", [](const OpCall& call) { return recurrent_flops(call, 1, 5); }},
    {"aten::mkldnn_rnn_layer_backward", [](const OpCall& call) { return 2 * recurrent_flops(call, 1, 5); }},
};

bool allows_tf32() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}

}  // namespace

Arithmetic arithmetic_of(std::string_view name) {
  const Row* const found = std::ranges::find(kRows, name, &Row::op);
  return found == std::end(kRows) ? Arithmetic::kNone : static_cast<Arithmetic>(found - kRows + 1);
}

std::uint64_t flops_of(Arithmetic arithmetic, c10::ArrayRef<at::TensorBase> tensors,
                       c10::ArrayRef<c10::IValue> arguments) {
  if (arithmetic == Arithmetic::kNone) return 0;
  return kRows[static_cast<std::size_t>(arithmetic) - 1].flops({.tensors = tensors, .arguments = arguments});
}

base::Bytes moved_of(const at::TensorBase& tensor, base::Bytes block) {
  if (!has_sizes(tensor)) return block;
  return std::min(block, base::Bytes(unsigned_of(tensor.numel()) * tensor.itemsize()));
}

base::Precision precision_of(const at::TensorBase& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
    case at::kFloat8_e4m3fn:  // of eight bits there is no rate: at half of it
    case at::kFloat8_e5m2:
      return base::Precision::kBfloat16;
    case at::kHalf:
      return base::Precision::kFloat16;
    case at::kDouble:
      return base::Precision::kFloat64;
    case at::kFloat:
      return tensor.is_cuda() && allows_tf32() ? base::Precision::kTf32 : base::Precision::kFloat32;
    default:
      return base::Precision::kFloat32;
  }
}

}  // namespace tensorpager::roofline
