// The last error of each thread, and the names and texts of errors, which are CUDA's.
#include <utility>

#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

struct ErrorWords {
  cudaError_t error;
  const char* name;
  const char* text;
};

// Those that this library returns, and those that torch asks about by number.
constexpr ErrorWords kWords[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorWords* find_words(cudaError_t error) {
  for (const ErrorWords& words : kWords)
    if (words.error == error) return &words;
  return nullptr;
}

struct LastError {
  cudaError_t error = cudaSuccess;
  cudaError_t with_text = cudaSuccess;  // the error that the text is of
  std::string text;
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

cudaError_t fail(cudaError_t error, const std::string& text) {
  LastError& last = last_error();
  last.error = error;
  if (text.empty()) return error;
  last.with_text = error;
  last.text = text;
  return error;
}

cudaError_t likely_error(const char* name) {
  const std::string call(name);
  if (call == "cudaMalloc" || call == "cudaHostAlloc" || call == "cudaHostRegister") return cudaErrorMemoryAllocation;
  if (call.find("Memcpy") != std::string::npos || call.find("Memset") != std::string::npos)
    return cudaErrorIllegalAddress;
  if (call.find("Synchronize") != std::string::npos) return cudaErrorLaunchFailure;
  return cudaErrorUnknown;
}

}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaGetLastError() { return std::exchange(last_error().error, cudaSuccess); }

TENSORPAGER_CUDA_API cudaError_t cudaPeekAtLastError() { return last_error().error; }

TENSORPAGER_CUDA_API const char* cudaGetErrorName(cudaError_t error) {
  const ErrorWords* words = find_words(error);
  return words ? words->name : "unrecognized error code";
}

TENSORPAGER_CUDA_API const char* cudaGetErrorString(cudaError_t error) {
  LastError& last = last_error();
  if (error == cudaErrorAssert && World::find() && !World::is_forked_child()) {
    if (const std::string failure = World::get().queues().failure(current_device()); !failure.empty()) {
      last.with_text = error;
      last.text = "device-side assert triggered, by the emulated kernel " + failure;
    }
  }
  if (error != cudaSuccess && error == last.with_text) return last.text.c_str();
  const ErrorWords* words = find_words(error);
  return words ? words->text : "unrecognized error code";
}
