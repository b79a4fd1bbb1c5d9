#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tensorpager/dry/shape_table.h"

namespace tensorpager::dry {
namespace {

constexpr std::size_t kWeights = 4, kState = 5, kCell = 6, kBatchSizes = 8, kTrain = 15;

/// Bytes of oneDNN's workspace for so many steps, by a run of the layer.
std::int64_t workspace_of(const torch::jit::Stack& arguments, std::int64_t steps) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mkldnn_rnn_layer", "");
  torch::jit::Stack stack = arguments;
  for (std::size_t i = 0; i <= kCell; ++i) {
    const at::Tensor& tensor = stack[i].toTensor();
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    if (i == 0) sizes[0] = steps;
    stack[i] = at::zeros(sizes, tensor.options().device(at::kCPU));
  }
  const torch::jit::Stack kept = stack;
  op.callBoxed(stack);
  return stack[3].toTensor().numel();
}

}  // namespace

/// mkldnn_rnn_layer(input, weights and biases, hx, cx, reverse, batch_sizes, ..., train): output, both states, and a
/// workspace whose size only oneDNN knows. It grows by the same for each step, but for the rounding of its parts to
/// pages: asked for of a few steps.
torch::jit::Stack rnn_layer_shapes(const torch::jit::Stack& arguments) {
  constexpr std::int64_t kFewSteps = 8;
  const at::Tensor &input = arguments[0].toTensor(), &state = arguments[kState].toTensor();
  std::int64_t workspace = 0;
  if (arguments[kTrain].toBool() && arguments[kBatchSizes].toIntVector().empty()) {
    const std::int64_t few = workspace_of(arguments, kFewSteps), twice = workspace_of(arguments, 2 * kFewSteps);
    workspace = few + (twice - few) * (input.size(0) - kFewSteps) / kFewSteps;
  }
  return {at::empty({input.size(0), input.size(1), state.size(-1)}, input.options()), at::empty_like(state),
          at::empty_like(arguments[kCell].toTensor()), at::empty({workspace}, input.options().dtype(at::kByte))};
}

/// mkldnn_rnn_layer_backward(input, four weights, hx, cx, ...): gradients of the input, of the four and of the states.
torch::jit::Stack rnn_layer_backward_shapes(const torch::jit::Stack& arguments) {
  torch::jit::Stack results;
  for (std::size_t i = 0; i <= kCell; ++i) {
    const at::Tensor& argument = arguments[i].toTensor();
    results.emplace_back(at::empty(argument.sizes(), argument.options()));
    static_assert(kWeights + 1 == kState);
  }
  return results;
}

}  // namespace tensorpager::dry
