#include "tensorpager/emulation/statistics.h"

#include <ATen/ATen.h>

#include <array>

namespace tensorpager::emulation {
namespace {

struct Gradient {
  const char* op;
  std::size_t input, weight;              // arguments
  std::array<std::size_t, 2> statistics;  // arguments
};

constexpr Gradient kGradients[] = {
    {"aten::native_layer_norm_backward", 1, 5, {3, 4}},
    {"aten::native_batch_norm_backward", 1, 2, {5, 6}},
    {"aten::batch_norm_backward", 1, 2, {5, 6}},
};

}  // namespace

void cast_statistics(const std::string& op, torch::jit::Stack& stack) {
  for (const Gradient& gradient : kGradients) {
    if (op != gradient.op) continue;
    const bool has_weight = stack[gradient.weight].isTensor() && stack[gradient.weight].toTensor().defined();
    const c10::IValue& model = stack[has_weight ? gradient.weight : gradient.input];
    for (const std::size_t i : gradient.statistics) {
      if (stack[i].isTensor() && stack[i].toTensor().defined())
        stack[i] = stack[i].toTensor().to(model.toTensor().scalar_type());
    }
  }
}

}  // namespace tensorpager::emulation
