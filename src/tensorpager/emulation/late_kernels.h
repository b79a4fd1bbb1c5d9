// CPU kernels run late, as CUDA's are: queued on the current stream of the fake card, over the bytes of device tensors.
//
//   Operands with;
//   at::Tensor out = empty(...);                     // from whatever CUDA allocator is installed
//   auto x = with.read(input), y = with.write(out);  // CPU tensors over the same bytes; they own nothing
//   launch("op", with, [=] { y.copy_(f(x)); });      // runs when the stream comes to it
//
// A kernel holds no reference to device memory: memory that is freed or reused too early is read as it is then, as on a
// GPU.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tensorpager/fake_cuda/kernels.h"

namespace tensorpager::emulation {

class Operands {
 public:
  /// A CPU tensor over a device tensor's bytes; undefined for an undefined one. One that is on the CPU is copied now,
  /// as launch arguments are.
  at::Tensor read(const at::Tensor& tensor) { return alias(tensor, false); }
  at::Tensor write(const at::Tensor& tensor) { return alias(tensor, true); }
  std::optional<at::Tensor> read(const std::optional<at::Tensor>& tensor) { return alias(tensor, false); }
  std::optional<at::Tensor> write(const std::optional<at::Tensor>& tensor) { return alias(tensor, true); }

  at::Tensor alias(const at::Tensor& tensor, bool written);
  std::optional<at::Tensor> alias(const std::optional<at::Tensor>& tensor, bool written);
  std::vector<fake_cuda::Range> take_ranges() { return std::exchange(touched_, {}); }

 private:
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;  // one alias for each, so that overlaps are seen
  std::vector<fake_cuda::Range> touched_;
};

/// Queues a kernel on the current stream. Inside it ops are plain CPU ops: no autograd, no autocast, not seen by mode
/// keys. `name` must live for ever. `work`: its arithmetic, for the card's clock; its bytes are those of the operands.
void launch(const char* name, Operands& with, std::function<void()> kernel, const fake_cuda::Work& work = {});
/// Waits for the current stream; throws the device's error.
void wait_for_current_stream();

/// Device tensors on the current device, from torch's CUDA allocator.
at::Tensor empty(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type);  // contiguous
/// A tensor of the same sizes and type; of the same strides if they are dense.
at::Tensor empty_as(const at::Tensor& tensor);

/// Advances the CUDA generator (the current device's if none is given) as a kernel launch does, and returns a seed for
/// `generator_of` when the kernel runs: what is drawn does not depend on the schedule.
std::uint64_t reserve_random(const std::optional<at::Generator>& generator = std::nullopt);
at::Generator generator_of(std::uint64_t seed);

}  // namespace tensorpager::emulation
