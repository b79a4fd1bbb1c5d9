#include "tensorpager/intercept/op_work.h"

#include <algorithm>
#include <utility>

namespace tensorpager::intercept {
namespace {

constexpr std::pair<std::string_view, Arithmetic> kOps[] = {
    {"aten::mm", Arithmetic::kMatrices},
    {"aten::addmm", Arithmetic::kAddedMatrices},
    {"aten::bmm", Arithmetic::kBatches},
    {"aten::convolution", Arithmetic::kConvolution},
    {"aten::convolution_backward", Arithmetic::kConvolutionBackward},
};

bool has_sizes(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

std::uint64_t unsigned_of(std::int64_t n) { return n > 0 ? static_cast<std::uint64_t>(n) : 0; }

std::uint64_t product(const at::TensorBase& a, const at::TensorBase& b) {
  if (!has_sizes(a) || !has_sizes(b) || a.dim() < 2 || b.dim() < 2) return 0;
  return 2 * unsigned_of(a.numel()) * unsigned_of(b.size(-1));
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
std::uint64_t convolution(const at::TensorBase& input, const at::TensorBase& weight,
                          c10::ArrayRef<c10::IValue> arguments) {
  constexpr std::size_t kStride = 3, kPadding = 4, kDilation = 5, kTransposed = 6;
  if (arguments.size() <= kTransposed || !has_sizes(input) || !has_sizes(weight) || weight.dim() < 3 ||
      input.dim() != weight.dim() || weight.size(0) == 0)
    return 0;
  if (arguments[kTransposed].toBool())
    return 2 * unsigned_of(input.numel()) * unsigned_of(weight.numel() / weight.size(0));
  const auto stride = arguments[kStride].toIntVector();
  const auto padding = arguments[kPadding].toIntVector();
  const auto dilation = arguments[kDilation].toIntVector();
  std::uint64_t places = unsigned_of(input.size(0));
  for (std::int64_t i = 2; i < input.dim(); ++i) {
    const auto at = [&](const std::vector<std::int64_t>& list) {
      return list[std::min(static_cast<std::size_t>(i - 2), list.size() - 1)];
    };
    if (stride.empty() || padding.empty() || dilation.empty() || at(stride) == 0) return 0;
    places *= unsigned_of((input.size(i) + 2 * at(padding) - at(dilation) * (weight.size(i) - 1) - 1) / at(stride) + 1);
  }
  return 2 * places * unsigned_of(weight.numel());
}

/// convolution_backward(grad_output, input, weight, bias_sizes, ..., output_mask): each gradient costs what the forward
/// pass did. `transposed` swaps the roles of output and input.
std::uint64_t convolution_backward(const at::TensorBase& gradient, const at::TensorBase& input,
                                   const at::TensorBase& weight, c10::ArrayRef<c10::IValue> arguments) {
  constexpr std::size_t kTransposed = 7, kMask = 10;
  if (arguments.size() <= kMask || !has_sizes(gradient) || !has_sizes(input) || !has_sizes(weight) ||
      weight.dim() < 3 || gradient.dim() != weight.dim() || weight.size(0) == 0)
    return 0;
  const at::TensorBase& places = arguments[kTransposed].toBool() ? input : gradient;
  const std::uint64_t one = 2 * unsigned_of(places.numel()) * unsigned_of(weight.numel() / weight.size(0));
  const auto mask = arguments[kMask].toBoolList();
  return one * (mask.get(0) ? 1 : 0) + one * (mask.get(1) ? 1 : 0);
}

}  // namespace

Arithmetic arithmetic_of(std::string_view name) {
  for (const auto& [op, arithmetic] : kOps) {
    if (op == name) return arithmetic;
  }
  return Arithmetic::kNone;
}

std::uint64_t flops_of(Arithmetic arithmetic, c10::ArrayRef<at::TensorBase> tensors,
                       c10::ArrayRef<c10::IValue> arguments) {
  switch (arithmetic) {
    case Arithmetic::kNone:
      return 0;
    case Arithmetic::kMatrices:
    case Arithmetic::kBatches:
      return tensors.size() < 2 ? 0 : product(tensors[0], tensors[1]);
    case Arithmetic::kAddedMatrices:
      return tensors.size() < 3 ? 0 : product(tensors[1], tensors[2]);
    case Arithmetic::kConvolution:
      return tensors.size() < 2 ? 0 : convolution(tensors[0], tensors[1], arguments);
    case Arithmetic::kConvolutionBackward:
      return tensors.size() < 3 ? 0 : convolution_backward(tensors[0], tensors[1], tensors[2], arguments);
  }
  return 0;
}

base::Bytes moved_of(const at::TensorBase& tensor, const pager::Block& block) {
  if (!has_sizes(tensor)) return block.size;
  return std::min(block.size, base::Bytes(unsigned_of(tensor.numel()) * tensor.itemsize()));
}

base::Precision precision_of(const at::TensorBase& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return base::Precision::kBfloat16;
    case at::kHalf:
      return base::Precision::kFloat16;
    case at::kDouble:
      return base::Precision::kFloat64;
    default:
      return base::Precision::kFloat32;
  }
}

}  // namespace tensorpager::intercept
