// libcuda.so.1 where there is no driver: enough that libraries load and see an initialised device; all else says that
// it is not supported, never that it worked. Preloaded by its path, so later loads by its name find it.
#define TENSORPAGER_DRIVER_API extern "C" __attribute__((visibility("default"))) int
#define TENSORPAGER_NOT_SUPPORTED(name) \
  TENSORPAGER_DRIVER_API name() { return kNotSupported; }

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

}  // namespace

TENSORPAGER_DRIVER_API cuInit(unsigned) { return kSuccess; }

TENSORPAGER_DRIVER_API cuDriverGetVersion(int* version) {
  *version = TENSORPAGER_CUDA_VERSION;
  return kSuccess;
}

TENSORPAGER_DRIVER_API cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}

TENSORPAGER_DRIVER_API cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}

// Torch asks before it makes a context for a device; the emulated card needs none.
TENSORPAGER_DRIVER_API cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}

TENSORPAGER_DRIVER_API cuCtxGetCurrent(void** context) {
  static char current;
  *context = &current;
  return kSuccess;
}

TENSORPAGER_DRIVER_API cuCtxSetCurrent(void*) { return kSuccess; }

TENSORPAGER_DRIVER_API cuGetErrorString(int error, const char** text) {
  *text = error == kSuccess ? "no error" : "operation not supported: the emulated card has no driver";
  return kSuccess;
}

TENSORPAGER_DRIVER_API cuGetErrorName(int error, const char** text) {
  *text = error == kSuccess ? "CUDA_SUCCESS" : "CUDA_ERROR_NOT_SUPPORTED";
  return kSuccess;
}

// What libcaffe2_nvrtc.so needs in order to load.
TENSORPAGER_NOT_SUPPORTED(cuDeviceGetAttribute)
TENSORPAGER_NOT_SUPPORTED(cuDevicePrimaryCtxRetain)
TENSORPAGER_NOT_SUPPORTED(cuFuncGetAttribute)
TENSORPAGER_NOT_SUPPORTED(cuFuncSetAttribute)
TENSORPAGER_NOT_SUPPORTED(cuFuncSetCacheConfig)
TENSORPAGER_NOT_SUPPORTED(cuLaunchCooperativeKernel)
TENSORPAGER_NOT_SUPPORTED(cuLaunchKernel)
TENSORPAGER_NOT_SUPPORTED(cuLinkAddData_v2)
TENSORPAGER_NOT_SUPPORTED(cuLinkComplete)
TENSORPAGER_NOT_SUPPORTED(cuLinkCreate_v2)
TENSORPAGER_NOT_SUPPORTED(cuModuleGetFunction)
TENSORPAGER_NOT_SUPPORTED(cuModuleLoad)
TENSORPAGER_NOT_SUPPORTED(cuModuleLoadData)
TENSORPAGER_NOT_SUPPORTED(cuModuleLoadDataEx)
TENSORPAGER_NOT_SUPPORTED(cuModuleUnload)
TENSORPAGER_NOT_SUPPORTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
TENSORPAGER_NOT_SUPPORTED(cuPointerGetAttribute)
TENSORPAGER_NOT_SUPPORTED(cuTensorMapEncodeTiled)
