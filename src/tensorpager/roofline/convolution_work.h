// Arithmetic of convolutions, plain, grouped and transposed.
//
// The output has a sum of products at each place and channel, over a filter that spans the channels of its group:
// batch * places * outputs * inputs / groups * kernel multiplications, of which the last three are the size of the
// weight.
#pragma once

#include <algorithm>
#include <optional>

#include "tensorpager/roofline/op_call.h"

namespace tensorpager::roofline {

inline bool fit(const at::TensorBase* places, const at::TensorBase* weight) {
  return places != nullptr && weight != nullptr && weight->dim() >= 3 && places->dim() == weight->dim() &&
         weight->size(0) > 0;
}

/// The work of each element of `places`: it meets one filter of its group, which is weight / weight.size(0) elements.
inline std::uint64_t filters_at(const at::TensorBase& places, const at::TensorBase& weight) {
  return 2 * unsigned_of(places.numel()) * unsigned_of(weight.numel() / weight.size(0));
}

/// Positions in the op's arguments.
struct ConvolutionPlaces {
  std::size_t stride, padding;
  std::optional<std::size_t> dilation = {}, transposed = {};
};

/// Tensors: input, weight. The roles of input and output are swapped.
inline std::uint64_t transposed_convolution_flops(const OpCall& call) {
  const at::TensorBase* const input = call.tensor(0);
  const at::TensorBase* const weight = call.tensor(1);
  return fit(input, weight) ? filters_at(*input, *weight) : 0;
}

/// Tensors: input, weight. The output's size is worked out, as the op has not run yet.
inline std::uint64_t convolution_flops(const OpCall& call, const ConvolutionPlaces& at) {
  const at::TensorBase* const input = call.tensor(0);
  const at::TensorBase* const weight = call.tensor(1);
  if (!fit(input, weight)) return 0;
  if (at.transposed && call.flag(*at.transposed)) return transposed_convolution_flops(call);
  const auto stride = call.numbers(at.stride);
  const auto padding = call.numbers(at.padding);
  const auto dilation = at.dilation ? call.numbers(*at.dilation) : std::vector<std::int64_t>{1};
  if (stride.empty() || padding.empty() || dilation.empty()) return 0;
  std::uint64_t places = unsigned_of(input->size(0));
  for (std::int64_t i = 2; i < input->dim(); ++i) {
    const auto of = [&](const std::vector<std::int64_t>& list) {
      return list[std::min(static_cast<std::size_t>(i - 2), list.size() - 1)];
    };
    if (of(stride) == 0) return 0;
    const std::int64_t spanned = of(dilation) * (weight->size(i) - 1) + 1;
    places *= unsigned_of((input->size(i) + 2 * of(padding) - spanned) / of(stride) + 1);
  }
  return 2 * places * unsigned_of(weight->numel());
}

/// Tensors: gradient, input, weight. Each gradient wanted costs what the forward pass did.
inline std::uint64_t convolution_backward_flops(const OpCall& call, std::optional<std::size_t> transposed,
                                                std::size_t mask) {
  const at::TensorBase* const gradient = call.tensor(0);
  const at::TensorBase* const input = call.tensor(1);
  const at::TensorBase* const weight = call.tensor(2);
  if (call.arguments.size() <= mask || !fit(gradient, weight) || !fit(input, weight)) return 0;
  const bool swapped = transposed && call.flag(*transposed);  // the roles of output and input
  const std::uint64_t one = filters_at(swapped ? *input : *gradient, *weight);
  return one * (call.wants(mask, 0) ? 1 : 0) + one * (call.wants(mask, 1) ? 1 : 0);
}

}  // namespace tensorpager::roofline
