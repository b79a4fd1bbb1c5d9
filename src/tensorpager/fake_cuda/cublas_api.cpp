// cuBLAS handles, and nothing that computes: torch's own pool of handles then allocates its workspaces from torch's
// CUDA allocator, as on a card. Types are given by what they are, so that cuBLAS's headers are not needed.
#include "tensorpager/fake_cuda/runtime_api.h"

namespace {

constexpr int kSuccess = 0;  // CUBLAS_STATUS_SUCCESS

struct Handle {
  int math_mode = 0;
  int pointer_mode = 0;
};

}  // namespace

TENSORPAGER_CUDA_API int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return kSuccess;
}

TENSORPAGER_CUDA_API int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return kSuccess;
}

TENSORPAGER_CUDA_API int cublasSetStream_v2(void*, void*) { return kSuccess; }
TENSORPAGER_CUDA_API int cublasSetWorkspace_v2(void*, void*, std::size_t) { return kSuccess; }

TENSORPAGER_CUDA_API int cublasSetMathMode(void* handle, int mode) {
  static_cast<Handle*>(handle)->math_mode = mode;
  return kSuccess;
}

TENSORPAGER_CUDA_API int cublasGetMathMode(void* handle, int* mode) {
  *mode = static_cast<Handle*>(handle)->math_mode;
  return kSuccess;
}

TENSORPAGER_CUDA_API int cublasSetPointerMode_v2(void* handle, int mode) {
  static_cast<Handle*>(handle)->pointer_mode = mode;
  return kSuccess;
}

TENSORPAGER_CUDA_API int cublasGetPointerMode_v2(void* handle, int* mode) {
  *mode = static_cast<Handle*>(handle)->pointer_mode;
  return kSuccess;
}
