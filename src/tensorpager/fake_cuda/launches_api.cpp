// CUDA's own kernels. None can run here: an emulated op launches nothing, so a launch that arrives is of an op that is
// not emulated, and is refused by name.
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

/// The names of kernels, which libraries register as they are loaded; some 50,000 for torch.
class KernelNames {
 public:
  void add(const void* kernel, const char* mangled) {
    const std::lock_guard lock(mutex_);
    names_[kernel] = mangled;
  }
  std::string find(const void* kernel) const {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(kernel);
    if (found == names_.end()) return "of unknown name";
    int status = 0;
    char* demangled = abi::__cxa_demangle(found->second, nullptr, nullptr, &status);
    const std::string name(demangled ? demangled : found->second);
    std::free(demangled);
    return name.substr(0, kLongestName);
  }

 private:
  static constexpr std::size_t kLongestName = 240;  // of template arguments there is no end

  mutable std::mutex mutex_;
  std::unordered_map<const void*, const char*> names_;
};

KernelNames& kernel_names() {
  static auto* names = new KernelNames;  // libraries may use it until the process ends
  return *names;
}

cudaError_t refuse(const char* name, const void* kernel) {
  return call(name, [&](World& world) {
    if (skips_kernels()) return cudaSuccess;
    ++world.launches_refused();
    return fail(cudaErrorInvalidDeviceFunction, "the emulated card cannot run the CUDA kernel " +
                                                    kernel_names().find(kernel) +
                                                    "; try the op that launched it on the CPU");
  });
}

/// The arguments that <<<...>>> leaves for the kernel's host function.
struct LaunchConfiguration {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<LaunchConfiguration>& configurations() {
  thread_local std::vector<LaunchConfiguration> pushed;
  return pushed;
}

}  // namespace
}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;  // there is one, and its contents are never read
  return &handle;
}

TENSORPAGER_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
TENSORPAGER_CUDA_API void __cudaUnregisterFatBinary(void**) {}
TENSORPAGER_CUDA_API char __cudaInitModule(void**) { return 1; }
TENSORPAGER_CUDA_API void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

TENSORPAGER_CUDA_API void __cudaRegisterFunction(void**, const char* kernel, char*, const char* name, int, void*, void*,
                                                 void*, void*, int*) {
  kernel_names().add(kernel, name);
}

TENSORPAGER_CUDA_API unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared_bytes,
                                                          cudaStream_t stream) {
  configurations().push_back({blocks, threads, shared_bytes, stream});
  return 0;
}

TENSORPAGER_CUDA_API cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared_bytes,
                                                            void* stream) {
  if (configurations().empty()) return fail(cudaErrorInvalidConfiguration);
  const LaunchConfiguration last = configurations().back();
  configurations().pop_back();
  *blocks = last.blocks;
  *threads = last.threads;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t,
                                                    cudaStream_t) {
  return refuse("cudaLaunchKernel", kernel);
}

TENSORPAGER_CUDA_API cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return refuse("cudaLaunchKernel", kernel);
}

TENSORPAGER_CUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* kernel, void**) {
  return refuse("cudaLaunchKernelExC", kernel);
}

TENSORPAGER_CUDA_API cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3, dim3, void**, std::size_t,
                                                             cudaStream_t) {
  return refuse("cudaLaunchCooperativeKernel", kernel);
}

TENSORPAGER_CUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  return call("cudaFuncGetAttributes", [&](World& world) {
    std::memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = world.card().compute_major * 10 + world.card().compute_minor;
    attributes->ptxVersion = attributes->binaryVersion;
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

TENSORPAGER_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                                        std::size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                                               int threads, std::size_t bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, bytes, 0);
}
