// The memory that an op takes of torch's allocator because it calls cuBLAS. It depends on torch's version, see also
// torch_internals.h.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <torch/headeronly/version.h>

#include <optional>

namespace tensorpager::emulation {

/// While it lives, an op that calls cuBLAS has its workspace on the current stream. Up to torch 2.14 the handle of a
/// thread and stream keeps one for good; from 2.15 on each op allocates one and frees it when it is queued.
class BlasWorkspace {
 public:
  /// `adds_bias`: the op is cuBLASLt's, which has a workspace besides.
  BlasWorkspace(bool is_needed, bool adds_bias) {
    if (is_needed) take();
    if (adds_bias) take_for_bias();
  }

 private:
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  void take() { handle_.emplace(at::cuda::getCurrentCUDABlasHandleWithWorkspace()); }
  std::optional<at::cuda::CUDABlasHandleWithWorkspace> handle_;
  static void take_for_bias() {}
#else
  static void take() { at::cuda::getCurrentCUDABlasHandle(); }
  static void take_for_bias() { at::cuda::getCUDABlasLtWorkspace(); }
#endif
};

}  // namespace tensorpager::emulation
