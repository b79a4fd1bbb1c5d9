// cuDNN's CTC loss, which returns the gradient along with the loss. F.ctc_loss comes here only if torch chooses it
// (`_use_cudnn_ctc_loss`); else it takes `_ctc_loss`, which the CPU has too.
#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

/// `Lengths` are lists of integers, or tensors of which the kernel reads its aliases.
template <typename Lengths>
std::tuple<Tensor, Tensor> launch_ctc(Operands& with, const Tensor& log_probs, const Tensor& targets,
                                      const Lengths& input_lengths, const Lengths& target_lengths, std::int64_t blank,
                                      bool zero_infinity) {
  const Tensor loss = empty({log_probs.size(1)}, log_probs.scalar_type());
  const Tensor gradient = empty(log_probs.sizes(), log_probs.scalar_type());
  const Tensor p = with.read(log_probs), labels = with.read(targets);
  const Tensor to_loss = with.write(loss), to_gradient = with.write(gradient);
  launch("_cudnn_ctc_loss", with, [=] {
    const auto [value, alpha] = at::_ctc_loss(p, labels, input_lengths, target_lengths, blank, zero_infinity);
    to_loss.copy_(value);
    to_gradient.copy_(at::_ctc_loss_backward(at::ones_like(value), p, labels, input_lengths, target_lengths, value,
                                             alpha, blank, zero_infinity));
  });
  return {loss, gradient};
}

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
                                    at::IntArrayRef target_lengths, std::int64_t blank, bool /*deterministic*/,
                                    bool zero_infinity) {
  Operands with;
  return launch_ctc(with, log_probs, targets, input_lengths.vec(), target_lengths.vec(), blank, zero_infinity);
}

std::tuple<Tensor, Tensor> ctc_loss_of(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                       const Tensor& target_lengths, std::int64_t blank, bool /*deterministic*/,
                                       bool zero_infinity) {
  Operands with;
  const Tensor inputs = with.read(input_lengths), labels = with.read(target_lengths);
  return launch_ctc(with, log_probs, targets, inputs, labels, blank, zero_infinity);
}

}  // namespace

void register_losses(OwnOps& ops) {
  ops.add("_cudnn_ctc_loss", ctc_loss);
  ops.add("_cudnn_ctc_loss.Tensor", ctc_loss_of);
}

}  // namespace tensorpager::emulation
