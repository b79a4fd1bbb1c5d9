#include <tuple>

#include "tensorpager/emulation/cuda_only_ops/layouts.h"
#include "tensorpager/emulation/cuda_only_ops/ops.h"
#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

using at::Tensor;

/// Keeps each element with probability `keep`; `kept` gets bool or uint8.
std::tuple<Tensor, Tensor> drop(const char* name, const Tensor& input, double keep, at::ScalarType mask_type,
                                const std::optional<at::Generator>& generator) {
  const Tensor output = empty_preserving(input), kept = empty_preserving(input, mask_type);
  const std::uint64_t seed = reserve_random(generator);
  const double scale = keep == 0 ? 0 : 1 / keep;
  Operands with;
  const Tensor x = with.read(input), y = with.write(output), mask = with.write(kept);
  launch(name, with, [=] {
    mask.bernoulli_(keep, generator_of(seed));
    y.copy_(x.mul(mask).mul_(scale));
  });
  return {output, kept};
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (!train || *train) return drop("native_dropout", input, 1 - p, at::kBool, std::nullopt);
  const Tensor output = empty_preserving(input), kept = empty_preserving(input, at::kBool);
  Operands with;
  const Tensor x = with.read(input), y = with.write(output), mask = with.write(kept);
  launch("native_dropout", with, [=] {
    y.copy_(x);
    mask.fill_(true);
  });
  return {output, kept};
}

/// Here `p` is the probability to keep an element, as in CUDA's kernel.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& input, double p, std::optional<at::Generator> generator) {
  return drop("_fused_dropout", input, p, at::kByte, generator);
}

Tensor masked_scale(const Tensor& input, const Tensor& kept, double scale) {
  const Tensor output = empty_preserving(input);
  Operands with;
  const Tensor x = with.read(input), mask = with.read(kept), y = with.write(output);
  launch("_masked_scale", with, [=] { y.copy_(x.mul(mask).mul_(scale)); });
  return output;
}

}  // namespace

void register_dropout(OwnOps& ops) {
  ops.add("native_dropout", native_dropout);
  ops.add("_fused_dropout", fused_dropout);
  ops.add("_masked_scale", masked_scale);
}

}  // namespace tensorpager::emulation
