// What an op's result depends on besides its arguments: switches of the process and of the thread. Captured with an op,
// and put back for a replay. Grad mode and requires_grad are none of them: below autograd no kernel asks for them.
//
// Some switches are the process's, so ops of other threads see them too while a replay runs; the thread count, autocast
// and denormal numbers are this thread's.
#pragma once

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>

#include "tensorpager/base/config.h"

namespace tensorpager::replay {

/// By which CUDA's kernels, and the libraries behind them, choose kernels and precisions.
struct CudaSwitches {
  bool cudnn = true;
  bool cudnn_deterministic = false;
  bool cudnn_benchmark = false;
  std::array<at::Float32Precision, 3> float32 = {};  // of convolutions, recurrent layers and products
  at::CuBLASReductionOption fp16_reduction = {}, bf16_reduction = {};
  bool fp16_accumulation = false;
  bool math_attention_reduction = false;
  at::LinalgBackend linear_algebra = at::LinalgBackend::Default;

  static CudaSwitches now();
  bool operator==(const CudaSwitches&) const = default;
};

struct Ambient {
  int threads = 1;  // kernels cut their work, and so their sums, by it
  bool mkldnn = true;
  bool mkldnn_deterministic = false;
  std::array<at::Float32Precision, 3> float32 = {};  // oneDNN's, of convolutions, recurrent layers and products
  bool fp16_reduction = false;                       // the same everywhere but on processors with float16 arithmetic
  bool deterministic = false;
  bool deterministic_warns = false;
  bool fills_uninitialized = true;
  bool flushes_denormals = false;
  at::ScalarType default_type = at::kFloat;  // of a floating result of integers
  /// Of the CPU's ops, or of CUDA's.
  struct Autocast {
    bool is_on = false;  // inside an autocast kernel it is off
    at::ScalarType type = at::kBFloat16;
    bool operator==(const Autocast&) const = default;
  };
  Autocast on_cpu, on_cuda;
  bool autocast_caches = true;
  std::optional<CudaSwitches> cuda = {};  // of a call of CUDA's kernels

  static Ambient now(base::Device device = base::Device::kHost);
  bool operator==(const Ambient&) const = default;
  bool autocasts() const { return on_cpu.is_on || on_cuda.is_on; }

  /// Whether AmbientGuard can bring this about. Float32 precisions cannot be set for a while: they inherit from each
  /// other, and torch does not say which of them were set. CUDA's switches are not set either, as hardly any program
  /// changes them within a step.
  bool can_be_set() const;
};

/// Sets what differs now, and puts it back. `ambient.can_be_set()` must hold.
class AmbientGuard {
 public:
  explicit AmbientGuard(const Ambient& ambient);
  ~AmbientGuard();
  AmbientGuard(const AmbientGuard&) = delete;
  AmbientGuard& operator=(const AmbientGuard&) = delete;

 private:
  const Ambient before_ = Ambient::now();
  const Ambient during_;
};

}  // namespace tensorpager::replay
