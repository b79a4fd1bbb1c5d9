// Device and pinned memory.
#include <cstring>

#include "tensorpager/fake_cuda/runtime_api.h"

using namespace tensorpager::fake_cuda;

TENSORPAGER_CUDA_API cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return call("cudaMalloc", [&](World& world) {
    *address = bytes == 0 ? nullptr : world.allocate(current_device(), bytes);
    return *address || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaFree(void* address) {
  return call("cudaFree",
              [&](World& world) { return !address || world.free(address) ? cudaSuccess : cudaErrorInvalidValue; });
}

TENSORPAGER_CUDA_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](World& world) {
    const DeviceMemory& memory = world.memory(current_device());
    *total = memory.total();
    *free = memory.total() - memory.used();
    return cudaSuccess;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](World& world) {
    *address = bytes == 0 ? nullptr : world.allocate_pinned(bytes);
    return *address || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

TENSORPAGER_CUDA_API cudaError_t cudaFreeHost(void* address) {
  return call("cudaFreeHost", [&](World& world) {
    return !address || world.free_pinned(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  return call("cudaHostRegister", [&](World& world) {
    if (!address || bytes == 0) return cudaErrorInvalidValue;
    return world.register_pinned(address, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaHostUnregister(void* address) {
  return call("cudaHostUnregister", [&](World& world) {
    return world.unregister_pinned(address) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return call("cudaHostGetDevicePointer", [&](World& world) {
    *device = host;
    return world.pinned().bytes_at(host) > 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

TENSORPAGER_CUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&](World& world) {
    std::memset(attributes, 0, sizeof *attributes);
    const int device = world.device_of(address);
    const bool pinned = world.pinned().bytes_at(address) > 0;
    attributes->device = device >= 0 ? device : pinned ? current_device() : cudaInvalidDeviceId;
    attributes->type = device >= 0 ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    if (device >= 0 || pinned) attributes->devicePointer = const_cast<void*>(address);
    if (pinned) attributes->hostPointer = const_cast<void*>(address);
    return cudaSuccess;
  });
}
