// A recurrent network as cuDNN defines it, on CPU tensors, for kernels that run late: the CPU's own nn.LSTM, nn.GRU and
// nn.RNN, with dropout between layers from a seed so that the backward pass can repeat the forward pass.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tensorpager::emulation {

enum class RnnMode : std::int64_t { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };  // cuDNN's numbers

struct RnnShape {
  RnnMode mode = RnnMode::kLstm;
  std::int64_t layers = 1;
  std::int64_t weights_per_direction = 4;  // of one layer: 2 matrices, 2 biases if any, 1 projection if any
  std::int64_t hidden_size = 0;
  std::int64_t projection_size = 0;  // 0: none
  bool batch_first = false;
  bool bidirectional = false;
  double dropout = 0;                     // between layers; 0 outside of training
  std::vector<std::int64_t> batch_sizes;  // of packed sequences; empty if the input is padded

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  bool has_biases() const { return weights_per_direction >= 4; }
  bool packed() const { return !batch_sizes.empty(); }
  bool drops() const { return dropout > 0 && layers > 1; }
  std::int64_t output_size() const { return projection_size > 0 ? projection_size : hidden_size; }
  std::int64_t gates() const { return mode == RnnMode::kLstm ? 4 : mode == RnnMode::kGru ? 3 : 1; }
};

struct RnnState {
  at::Tensor output, hidden;
  at::Tensor cell;  // undefined but for an LSTM
};

/// `weights` in the order of the layers, directions and parameters of nn.RNNBase. 16-bit inputs are computed in float.
RnnState run_rnn(const RnnShape& shape, const at::Tensor& input, const std::vector<at::Tensor>& weights,
                 const at::Tensor& hx, const std::optional<at::Tensor>& cx, std::uint64_t seed);

struct RnnGradients {
  at::Tensor input, hx, cx;         // `cx` is undefined but for an LSTM
  std::vector<at::Tensor> weights;  // an undefined one is zero
};

/// Repeats `run_rnn` with autograd on, and differentiates it. Undefined gradients count as zero.
RnnGradients differentiate_rnn(const RnnShape& shape, const at::Tensor& input, const std::vector<at::Tensor>& weights,
                               const at::Tensor& hx, const std::optional<at::Tensor>& cx, std::uint64_t seed,
                               const std::array<std::optional<at::Tensor>, 3>& grad_output_hidden_cell);

}  // namespace tensorpager::emulation
