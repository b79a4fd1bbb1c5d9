// Devices, their properties and what they can do.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tensorpager/fake_cuda/runtime_api.h"

namespace tensorpager::fake_cuda {
namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;  // an H100's

bool is_device(const World& world, int device) { return device >= 0 && device < world.card().devices; }

/// Bytes of shared memory that a block may ask for, by compute capability (CUDA's programming guide); a multiprocessor
/// has 1 KiB more.
std::size_t shared_memory_of_block(const Card& card) {
  const int compute = card.compute_major * 10 + card.compute_minor;
  if (compute >= 120) return 99 << 10;
  if (compute >= 90) return 227 << 10;
  if (compute == 86 || compute == 89) return 99 << 10;
  if (compute >= 80) return 163 << 10;
  return 64 << 10;
}

cudaDeviceProp properties_of(const Card& card, int device) {
  cudaDeviceProp properties;
  std::memset(&properties, 0, sizeof properties);
  std::snprintf(properties.name, sizeof properties.name, "%s", card.display_name().c_str());
  std::memcpy(properties.uuid.bytes, "tensorpager card", 16);
  properties.uuid.bytes[15] = static_cast<char>(device);
  properties.totalGlobalMem = card.memory;
  properties.major = card.compute_major;
  properties.minor = card.compute_minor;
  properties.multiProcessorCount = card.multiprocessors;
  properties.warpSize = 32;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiProcessor = 2048;
  properties.maxBlocksPerMultiProcessor = 32;
  properties.sharedMemPerBlock = 48 << 10;
  properties.sharedMemPerBlockOptin = shared_memory_of_block(card);
  properties.sharedMemPerMultiprocessor = shared_memory_of_block(card) + 1024;
  properties.reservedSharedMemPerBlock = 1024;
  properties.regsPerBlock = 65536;
  properties.regsPerMultiprocessor = 65536;
  properties.totalConstMem = 65536;
  properties.l2CacheSize = 50 << 20;
  properties.memoryBusWidth = 5120;
  properties.textureAlignment = 512;
  properties.texturePitchAlignment = 32;
  properties.asyncEngineCount = 3;
  properties.concurrentKernels = 1;
  properties.unifiedAddressing = 1;
  properties.canMapHostMemory = 1;
  properties.pciBusID = device + 1;
  const int threads[] = {1024, 1024, 64};
  const int blocks[] = {2147483647, 65535, 65535};
  std::copy_n(threads, 3, properties.maxThreadsDim);
  std::copy_n(blocks, 3, properties.maxGridSize);
  return properties;
}

/// Returns 0 for attributes that do not exist, as CUDA does.
int attribute_of(const cudaDeviceProp& properties, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      return properties.multiProcessorCount;
    case cudaDevAttrComputeCapabilityMajor:
      return properties.major;
    case cudaDevAttrComputeCapabilityMinor:
      return properties.minor;
    case cudaDevAttrWarpSize:
      return properties.warpSize;
    case cudaDevAttrMaxThreadsPerBlock:
      return properties.maxThreadsPerBlock;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return properties.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return properties.maxBlocksPerMultiProcessor;
    case cudaDevAttrMaxBlockDimX:
      return properties.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return properties.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return properties.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return properties.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return properties.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return properties.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(properties.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(properties.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(properties.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxRegistersPerBlock:
      return properties.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return properties.regsPerMultiprocessor;
    case cudaDevAttrL2CacheSize:
      return properties.l2CacheSize;
    case cudaDevAttrAsyncEngineCount:
      return properties.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing:
      return properties.unifiedAddressing;
    case cudaDevAttrConcurrentKernels:
      return properties.concurrentKernels;
    case cudaDevAttrCanMapHostMemory:
      return properties.canMapHostMemory;
    default:
      return 0;
  }
}

}  // namespace
}  // namespace tensorpager::fake_cuda

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](World& world) {
    *count = world.card().devices;
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](World&) {
    *device = current_device();
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](World& world) {
    if (!is_device(world, device)) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](World& world) {
    if (!is_device(world, device)) return cudaErrorInvalidDevice;
    *properties = properties_of(world.card(), device);
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&](World& world) {
    if (!is_device(world, device)) return cudaErrorInvalidDevice;
    *value = attribute_of(properties_of(world.card(), device), attribute);
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return call("cudaDeviceGetPCIBusId", [&](World& world) {
    if (!is_device(world, device)) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = kLeastPriority;
  if (greatest) *greatest = kGreatestPriority;
  return cudaSuccess;
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&](World& world) {
    if (!is_device(world, device) || !is_device(world, peer)) return cudaErrorInvalidDevice;
    *can = 0;
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return fail(cudaErrorPeerAccessUnsupported);
}

TENSORPAGER_CUDA_API cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [](World& world) {
    world.queues().wait_for_device(current_device());
    return state_of_device(world, current_device());
  });
}
