// The CUDA runtime API of libtensorpager_fake_cuda.so, with no torch: linked, so that its calls are the library's.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tensorpager/fake_cuda/kernels.h"

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);

namespace tensorpager::fake_cuda {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBytes = 1 << 20;
constexpr std::size_t kMemory = 16 << 20;

class Api : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TENSORPAGER_CARD", "name=a100-40g devices=2 compute=8.0 multiprocessors=108 memory=16777216", 1);
    setenv("TENSORPAGER_EMULATE_SEED", "11", 1);
  }
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&block_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned_, kBytes), cudaSuccess);
  }
  /// Nothing is left allocated, and no race was made.
  void TearDown() override {
    tensorpager_fake_cuda_clear_error();
    EXPECT_EQ(cudaFree(block_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(free, kMemory);
    EXPECT_EQ(total, kMemory);
    EXPECT_THAT(tensorpager_fake_cuda_report(), HasSubstr("\"races\": 0,"));
    cudaGetLastError();
  }

  cudaStream_t stream_ = nullptr;
  void* block_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_F(Api, CopiesBothWaysThroughPinnedMemoryInStreamOrder) {
  auto* bytes = static_cast<char*>(pinned_);
  std::memset(bytes, 3, kBytes);
  ASSERT_EQ(cudaMemcpyAsync(block_, bytes, kBytes, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(block_, 4, kBytes / 2, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(bytes, block_, kBytes, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(bytes[0], 4);
  EXPECT_EQ(bytes[kBytes - 1], 3);
}

TEST_F(Api, StagesPageableSourcesAndWaitsForPageableTargets) {
  std::vector<char> source(kBytes, 5);
  std::vector<char> target(kBytes, 0);
  ASSERT_EQ(cudaMemcpyAsync(block_, source.data(), kBytes, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  std::fill(source.begin(), source.end(), 6);  // the copy has the bytes already
  ASSERT_EQ(cudaMemcpyAsync(target.data(), block_, kBytes, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(target[kBytes - 1], 5);
}

TEST_F(Api, AStreamWaitsForAnEventOfAnother) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, -1), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "an event that was never recorded is done";
  ASSERT_EQ(cudaMemsetAsync(block_, 7, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, block_, kBytes, cudaMemcpyDefault, other), cudaSuccess);
  while (cudaStreamQuery(other) == cudaErrorNotReady) EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(static_cast<char*>(pinned_)[kBytes - 1], 7);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Api, EventsTellTheTimeBetweenThem) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  float milliseconds = 0;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle) << "not recorded";
  ASSERT_EQ(cudaEventRecord(begin, stream_), cudaSuccess);
  launch(stream_, "sleep", {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 19.0F);
  EXPECT_LT(milliseconds, 10'000.0F);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST_F(Api, AnEventIsRecordedInStreamsOfItsOwnDevice) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle) << "the other device's default stream";
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess) << "the current device does not count";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Api, SaysWhenMemoryIsOut) {
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, kMemory), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  ASSERT_EQ(cudaMalloc(&more, kMemory - kBytes), cudaSuccess) << "exactly what is left";
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  EXPECT_EQ(cudaFree(more), cudaErrorInvalidValue);
}

TEST_F(Api, RefusesCopiesBeyondABlock) {
  EXPECT_EQ(cudaMemcpyAsync(block_, pinned_, kBytes + 1, cudaMemcpyDefault, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(static_cast<char*>(block_) + kBytes, 0, 1, stream_), cudaErrorInvalidValue);
}

TEST_F(Api, RefusesAKernelOfCudaByItsName) {
  static const char kernel = 0;
  static char name[] = "_Z9my_kernelPf";
  __cudaRegisterFunction(nullptr, &kernel, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(1), nullptr, 0, stream_), cudaErrorInvalidDeviceFunction);
  EXPECT_THAT(cudaGetErrorString(cudaGetLastError()), HasSubstr("cannot run the CUDA kernel my_kernel(float*)"));
  EXPECT_THAT(tensorpager_fake_cuda_report(), HasSubstr("\"launches_refused\": 1,"));
  tensorpager_fake_cuda_skip(true);
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(1), nullptr, 0, stream_), cudaSuccess) << "skipped";
  tensorpager_fake_cuda_skip(false);
}

TEST_F(Api, AFailedKernelsErrorStaysAndIsToldByTheNextWait) {
  launch(stream_, "index", {}, [] { throw std::out_of_range("index out of range in self"); });
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorAssert);
  EXPECT_THAT(cudaGetErrorString(cudaErrorAssert), HasSubstr("index: index out of range in self"));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorAssert);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the other device did nothing wrong";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  tensorpager_fake_cuda_clear_error();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Api, FailsACallThatWasAskedFor) {
  void* block = nullptr;
  tensorpager_fake_cuda_fail("cudaMalloc", 2);
  ASSERT_EQ(cudaMalloc(&block, 512), cudaSuccess);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&block, 512), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&block, 512), cudaSuccess);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
}

TEST_F(Api, TwoDevicesHaveTheirOwnMemoryAndCopyToEachOther) {
  int count = 0;
  int can = 1;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  ASSERT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << "each thread has its own current device";
  }).join();
  void* other = nullptr;
  ASSERT_EQ(cudaMalloc(&other, kMemory), cudaSuccess) << "all of the second device";
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, other), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaMemsetAsync(block_, 9, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(other, 1, block_, 0, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, other, kBytes, cudaMemcpyDefault, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(static_cast<char*>(pinned_)[kBytes - 1], 9);
  EXPECT_EQ(cudaFree(other), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Api, PropertiesAreTheCards) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "NVIDIA A100-40G (emulated)");
  EXPECT_EQ(properties.major, 8);
  EXPECT_EQ(properties.multiProcessorCount, 108);
  EXPECT_EQ(properties.totalGlobalMem, kMemory);
  int value = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  EXPECT_EQ(value, 163 << 10);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
}

TEST_F(Api, SaysWhatItDoesNotSupport) {
  void* block = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaErrorNotSupported);
  EXPECT_THAT(cudaGetErrorString(cudaErrorNotSupported), HasSubstr("CUDA graphs"));
  EXPECT_EQ(cudaMallocAsync(&block, 512, stream_), cudaErrorNotSupported);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, 0, &result), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<int (*)()>(function)(), 801) << "CUDA_ERROR_NOT_SUPPORTED";
}

}  // namespace
}  // namespace tensorpager::fake_cuda
