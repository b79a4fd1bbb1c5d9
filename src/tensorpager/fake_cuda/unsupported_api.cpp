// What torch may call and an emulated card does not have: graphs, memory shared with other processes, memory pools,
// symbols of device code, and the driver. Each call fails with CUDA's own error.
#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

cudaError_t refuse(const char* what) {
  return fail(cudaErrorNotSupported, std::string("operation not supported: the emulated card has no ") + what);
}

constexpr int kDriverNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

int refuse_driver_call() { return kDriverNotSupported; }

int describe_driver_error(int, const char** text) {
  *text = "operation not supported: the emulated card has no driver";
  return 0;
}

constexpr char kGraphs[] = "CUDA graphs; try without them";
constexpr char kSharing[] = "memory or events shared between processes; try one process";
constexpr char kPools[] = "memory pools; try torch's native allocator";
constexpr char kSymbols[] = "symbols of device code";

}  // namespace
}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return refuse(kGraphs);
}
TENSORPAGER_CUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) { return refuse(kGraphs); }
TENSORPAGER_CUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, std::size_t*) {
  return refuse(kGraphs);
}
TENSORPAGER_CUDA_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
                                                              std::size_t*) {
  return refuse(kGraphs);
}

TENSORPAGER_CUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return refuse(kSharing); }
TENSORPAGER_CUDA_API cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { return refuse(kSharing); }
TENSORPAGER_CUDA_API cudaError_t cudaIpcCloseMemHandle(void*) { return refuse(kSharing); }
TENSORPAGER_CUDA_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return refuse(kSharing); }
TENSORPAGER_CUDA_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return refuse(kSharing); }

TENSORPAGER_CUDA_API cudaError_t cudaMallocAsync(void**, std::size_t, cudaStream_t) { return refuse(kPools); }
TENSORPAGER_CUDA_API cudaError_t cudaFreeAsync(void*, cudaStream_t) { return refuse(kPools); }
TENSORPAGER_CUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) { return refuse(kPools); }
TENSORPAGER_CUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return refuse(kPools);
}
TENSORPAGER_CUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return refuse(kPools);
}
TENSORPAGER_CUDA_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return refuse(kPools);
}
TENSORPAGER_CUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return refuse(kPools); }

TENSORPAGER_CUDA_API cudaError_t cudaGetSymbolAddress(void**, const void*) { return refuse(kSymbols); }
TENSORPAGER_CUDA_API cudaError_t cudaMemcpyToSymbol(const void*, const void*, std::size_t, std::size_t,
                                                    cudaMemcpyKind) {
  return refuse(kSymbols);
}
TENSORPAGER_CUDA_API cudaError_t cudaMemcpy2DAsync(void*, std::size_t, const void*, std::size_t, std::size_t,
                                                   std::size_t, cudaMemcpyKind, cudaStream_t) {
  return refuse("copies of rows");
}
TENSORPAGER_CUDA_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
TENSORPAGER_CUDA_API cudaError_t cudaProfilerStop() { return cudaSuccess; }

/// Torch takes driver functions by name. It gets functions that refuse, not an error here, which it takes for its own
/// bug.
TENSORPAGER_CUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                                  unsigned long long,
                                                                  cudaDriverEntryPointQueryResult* result) {
  const bool describes = std::string(name) == "cuGetErrorString";
  *function = describes ? reinterpret_cast<void*>(describe_driver_error) : reinterpret_cast<void*>(refuse_driver_call);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
