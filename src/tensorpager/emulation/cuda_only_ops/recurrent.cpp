// cuDNN's recurrent networks. The state of dropout and the reserve are opaque bytes of cuDNN's; here they begin with
// what the emulation keeps there, so that a program that restores or pages them restores what it should.
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/cpu_rnn.h"
#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/cuda_only_ops/parts.h"
#include "tensorpager/emulation/late_kernels.h"
#include "tensorpager/roofline/op_work.h"
#include "tensorpager/roofline/recurrent_work.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;

/// What the bytes of a dropout state begin with.
struct DropoutState {
  std::uint64_t seed;
  std::uint64_t uses;  // forward passes so far: each draws another mask
};

/// An estimate: cuDNN's random states by multiprocessor, as reported for older cards (1,376,256 bytes over 56).
constexpr std::int64_t kStateBytesPerMultiprocessor = 24576;

Tensor init_dropout_state(double /*dropout*/, bool /*train*/, std::int64_t seed, std::optional<at::ScalarType>,
                          std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::cuda::OptionalCUDAGuard on(device);
  const int multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const Tensor state = empty({std::max(multiprocessors, 1) * kStateBytesPerMultiprocessor}, at::kByte);
  Operands with;
  const Tensor bytes = with.write(state);
  launch("_cudnn_init_dropout_state", with, [=] {
    const DropoutState start = {static_cast<std::uint64_t>(seed), 0};
    std::memcpy(bytes.mutable_data_ptr(), &start, sizeof(start));
  });
  return state;
}

/// The seed of one forward pass; counts it. The factor is that of splitmix64, which spreads neighbouring counts.
std::uint64_t next_seed(const Tensor& state) {
  DropoutState now{};
  std::memcpy(&now, state.const_data_ptr(), sizeof(now));
  std::uint64_t mixed = now.seed + ++now.uses * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  std::memcpy(state.mutable_data_ptr(), &now, sizeof(now));
  return (mixed ^ (mixed >> 31)) >> 1;
}

/// Tokens of all sequences: padded ones count.
std::int64_t tokens(const RnnShape& shape, const Tensor& input) {
  return shape.packed() ? input.size(0) : input.size(0) * input.size(1);
}

/// An estimate of what cuDNN keeps for the backward pass, not its formula: for each token, layer and direction the
/// activated gates, the output and (LSTM) the cell, or (GRU) the hidden part of the new gate; for each dropped value
/// a byte; and the seed.
std::int64_t reserve_bytes(const RnnShape& shape, const Tensor& input) {
  const std::int64_t kept = shape.gates() + 1 + (shape.gates() > 1 ? 1 : 0);
  const std::int64_t element = static_cast<std::int64_t>(input.itemsize());
  const std::int64_t rows = tokens(shape, input) * shape.directions();
  const std::int64_t masks = shape.drops() ? rows * (shape.layers - 1) * shape.output_size() : 0;
  return rows * shape.layers * shape.hidden_size * kept * element + masks +
         static_cast<std::int64_t>(sizeof(std::uint64_t));
}

/// An estimate of cuDNN's work space: the gates of one layer over all tokens.
Tensor work_space(const RnnShape& shape, const Tensor& input) {
  const std::int64_t element = static_cast<std::int64_t>(input.itemsize());
  return empty({tokens(shape, input) * shape.directions() * shape.hidden_size * shape.gates() * element}, at::kByte);
}

/// Time comes first in what cuDNN reads and writes; a program's batch_first is a transposed view of it.
Tensor time_first(const RnnShape& shape, const Tensor& tensor) {
  return shape.batch_first && !shape.packed() ? tensor.transpose(0, 1) : tensor;
}
Tensor empty_time_first(const RnnShape& shape, const Tensor& like, std::int64_t features) {
  std::vector<std::int64_t> sizes = time_first(shape, like).sizes().vec();
  sizes.back() = features;
  return time_first(shape, empty(sizes, like.scalar_type()));
}

std::int64_t elements_of(at::TensorList tensors) {
  std::int64_t all = 0;
  for (const Tensor& tensor : tensors) all += tensor.numel();
  return all;
}

/// Views of one flat buffer, one for each weight: matrices first, then biases, as in cuDNN's buffer.
std::vector<Tensor> views_like(const Tensor& flat, at::TensorList weights) {
  std::vector<Tensor> views(weights.size());
  std::int64_t offset = 0;
  for (const bool matrices : {true, false}) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if ((weights[i].dim() > 1) != matrices) continue;
      views[i] = flat.narrow(0, offset, weights[i].numel()).view(weights[i].sizes());
      offset += weights[i].numel();
    }
  }
  return views;
}

std::vector<Tensor> read_all(Operands& with, at::TensorList tensors) {
  std::vector<Tensor> aliases;
  for (const Tensor& tensor : tensors) aliases.push_back(with.read(tensor));
  return aliases;
}

RnnShape shape_of(std::int64_t mode, const c10::SymInt& hidden, const c10::SymInt& projection, std::int64_t layers,
                  std::int64_t weights_per_direction, bool batch_first, double dropout, bool train, bool bidirectional,
                  c10::SymIntArrayRef batch_sizes) {
  return {static_cast<RnnMode>(mode), layers,      weights_per_direction, hidden.expect_int(),
          projection.expect_int(),    batch_first, bidirectional,         train ? dropout : 0,
          to_ints(batch_sizes)};
}

/// A copy of the weights in one buffer, which a forward pass makes that was given none.
Tensor flattened(at::TensorList weights) {
  const Tensor flat = empty({elements_of(weights)}, weights[0].scalar_type());
  Operands with;
  const std::vector<Tensor> from = read_all(with, weights);
  const Tensor to = with.write(flat);
  launch("cudnn_rnn_flatten", with, [=] {
    const std::vector<Tensor> views = views_like(to, from);
    for (std::size_t i = 0; i < from.size(); ++i) views[i].copy_(from[i]);
  });
  return flat;
}

/// A pass that computes the gradients of inputs, or of weights, takes as much again.
fake_cuda::Work work_of(const Tensor& input, at::TensorList weights, std::uint64_t passes) {
  std::uint64_t elements = 0;
  for (const Tensor& weight : weights)
    if (weight.dim() == 2) elements += static_cast<std::uint64_t>(weight.numel());  // biases are vectors
  return {.flops = roofline::recurrent_flops(input, elements) * passes,
          .op_class = base::OpClass::kRecurrent,
          .precision = roofline::precision_of(input)};
}

/// output, hy, cy, reserve, weight buffer.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> cudnn_rnn(
    const Tensor& input, at::TensorList weights, std::int64_t weights_per_direction,
    const OptionalTensor& weight_buffer, const Tensor& hx, const OptionalTensor& cx, std::int64_t mode,
    c10::SymInt hidden_size, c10::SymInt projection_size, std::int64_t layers, bool batch_first, double dropout,
    bool train, bool bidirectional, c10::SymIntArrayRef batch_sizes, const OptionalTensor& dropout_state) {
  const RnnShape shape = shape_of(mode, hidden_size, projection_size, layers, weights_per_direction, batch_first,
                                  dropout, train, bidirectional, batch_sizes);
  TORCH_CHECK(!shape.drops() || is_given(dropout_state), "_cudnn_rnn: dropout ", dropout, " has no dropout state");
  const Tensor own_input = scratch_for_contiguous(time_first(shape, input));
  const Tensor output = empty_time_first(shape, input, shape.output_size() * shape.directions());
  const Tensor hy = empty(hx.sizes(), hx.scalar_type());
  const Tensor cy = is_given(cx) ? empty(cx->sizes(), cx->scalar_type()) : empty({0}, hx.scalar_type());
  const Tensor buffer = is_given(weight_buffer) ? *weight_buffer : flattened(weights);
  const Tensor space = work_space(shape, input);
  const Tensor reserve = empty({train ? reserve_bytes(shape, input) : 0}, at::kByte);
  Operands with;
  const Tensor x = with.read(input), h = with.read(hx);
  const std::vector<Tensor> w = read_all(with, weights);
  const OptionalTensor c = with.read(cx);
  const Tensor y = with.write(output), to_h = with.write(hy), to_c = with.write(cy), kept = with.write(reserve);
  const Tensor state = shape.drops() ? with.write(*dropout_state) : Tensor();
  with.write(space);
  with.write(own_input);
  // The CPU has one kernel for passes that will be differentiated and one for those that will not.
  const bool differentiable = at::GradMode::is_enabled();
  launch(
      "_cudnn_rnn", with,
      [=] {
        const at::AutoGradMode as_on_the_cpu(differentiable);
        const std::uint64_t seed = state.defined() ? next_seed(state) : 0;
        if (kept.numel() > 0) put_seed(kept, seed);
        const RnnState result = run_rnn(shape, x, w, h, c, seed);
        y.copy_(result.output);
        to_h.copy_(result.hidden);
        if (result.cell.defined()) to_c.copy_(result.cell);
      },
      work_of(input, weights, 1));
  return {output, hy, cy, reserve, buffer};
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>> cudnn_rnn_backward(
    const Tensor& input, at::TensorList weights, std::int64_t weights_per_direction, const Tensor& weight_buffer,
    const Tensor& hx, const OptionalTensor& cx, const Tensor& /*output*/, const OptionalTensor& grad_output,
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, std::int64_t mode, c10::SymInt hidden_size,
    c10::SymInt projection_size, std::int64_t layers, bool batch_first, double dropout, bool train, bool bidirectional,
    c10::SymIntArrayRef batch_sizes, const OptionalTensor& /*dropout_state*/, const Tensor& reserve,
    std::array<bool, 4> wanted) {
  if (!is_given(grad_output) && !is_given(grad_hy) && !is_given(grad_cy))
    return {Tensor(), Tensor(), Tensor(), std::vector<Tensor>(weights.size())};
  TORCH_CHECK(train, "cudnn RNN backward can only be called in training mode");
  const RnnShape shape = shape_of(mode, hidden_size, projection_size, layers, weights_per_direction, batch_first,
                                  dropout, train, bidirectional, batch_sizes);
  const Tensor grad_input = empty_time_first(shape, input, input.size(-1));
  const Tensor grad_hx = empty(hx.sizes(), hx.scalar_type());
  const Tensor grad_cx = is_given(cx) ? empty(cx->sizes(), cx->scalar_type()) : Tensor();
  const Tensor space = work_space(shape, input), own_input = scratch_for_contiguous(time_first(shape, input));
  const std::int64_t elements = std::max(weight_buffer.defined() ? weight_buffer.numel() : 0, elements_of(weights));
  const Tensor flat = wanted[3] ? empty({elements}, weights[0].scalar_type()) : Tensor();
  Operands with;
  const Tensor x = with.read(input), h = with.read(hx), kept = with.read(reserve);
  const std::vector<Tensor> w = read_all(with, weights);
  const OptionalTensor c = with.read(cx);
  const std::array<OptionalTensor, 3> gradients = {with.read(grad_output), with.read(grad_hy), with.read(grad_cy)};
  const Tensor to_x = with.write(grad_input), to_h = with.write(grad_hx), to_c = with.write(grad_cx);
  const Tensor to_weights = with.write(flat);
  with.write(space);
  with.write(own_input);
  launch(
      "_cudnn_rnn_backward", with,
      [=] {
        const RnnGradients found = differentiate_rnn(shape, x, w, h, c, seed_in(kept), gradients);
        const auto put = [](const Tensor& to, const Tensor& from) {
          if (to.defined() && from.defined()) to.copy_(from);
          if (to.defined() && !from.defined()) to.zero_();
        };
        put(to_x, found.input);
        put(to_h, found.hx);
        put(to_c, found.cx);
        if (!to_weights.defined()) return;
        to_weights.zero_();
        const std::vector<Tensor> views = views_like(to_weights, w);
        for (std::size_t i = 0; i < views.size(); ++i) put(views[i], found.weights[i]);
      },
      work_of(input, weights, wanted[3] ? 2 : 1));
  return {grad_input, grad_hx, grad_cx, flat.defined() ? views_like(flat, weights) : std::vector<Tensor>()};
}

}  // namespace

void register_recurrent(OwnOps& ops) {
  ops.add("_cudnn_init_dropout_state", init_dropout_state);
  ops.add("_cudnn_rnn", cudnn_rnn);
  ops.add("_cudnn_rnn_backward", cudnn_rnn_backward);
  register_recurrent_cells(ops);
}

}  // namespace tensorpager::emulation
