// Random numbers that do not depend on the schedule: what the CUDA generator hands out when an op is queued seeds a CPU
// generator when its kernel runs.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

#include "tensorpager/emulation/late_kernels.h"

namespace tensorpager::emulation {
namespace {

constexpr std::uint64_t kOffsetOfAKernel = 4;  // the least that a generator of CUDA moves on by

/// Spreads a seed and an offset over 63 bits (seeds of generators are read back as signed integers); after splitmix64.
std::uint64_t mix(std::uint64_t seed, std::uint64_t offset) {
  std::uint64_t bits = seed * 0x9E3779B97F4A7C15ull + offset * 0xBF58476D1CE4E5B9ull;
  bits ^= bits >> 31;
  bits *= 0x94D049BB133111EBull;
  return (bits ^ (bits >> 29)) >> 1;
}

}  // namespace

std::uint64_t reserve_random(const std::optional<at::Generator>& generator) {
  at::Generator used = generator && generator->defined() ? *generator : at::cuda::detail::getDefaultCUDAGenerator();
  const std::lock_guard lock(used.mutex());
  const auto state = at::check_generator<at::CUDAGeneratorImpl>(used)->philox_cuda_state(kOffsetOfAKernel);
  TORCH_CHECK(!state.captured_, "emulated CUDA has no graphs: a random op was called while a stream is captured");
  return mix(state.seed_.val, state.offset_.val);
}

at::Generator generator_of(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

}  // namespace tensorpager::emulation
