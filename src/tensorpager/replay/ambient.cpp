#include "tensorpager/replay/ambient.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <limits>

namespace tensorpager::replay {
namespace {

/// torch has no getter: the unit of arithmetic is asked.
bool flushes_denormals() {
  volatile float denormal = std::numeric_limits<float>::denorm_min();
  return denormal * 1.0F == 0.0F;
}

Ambient::Autocast autocast_on(c10::DeviceType device) {
  return {.is_on = at::autocast::is_autocast_enabled(device), .type = at::autocast::get_autocast_dtype(device)};
}

void change_autocast(c10::DeviceType device, const Ambient::Autocast& from, const Ambient::Autocast& to) {
  if (from.is_on != to.is_on) at::autocast::set_autocast_enabled(device, to.is_on);
  if (from.type != to.type) at::autocast::set_autocast_dtype(device, to.type);
}

/// Sets what differs between two states; `from` is in effect.
void change(const Ambient& from, const Ambient& to) {
  at::Context& context = at::globalContext();
  if (from.threads != to.threads) at::set_num_threads(to.threads);
  if (from.mkldnn != to.mkldnn) context.setUserEnabledMkldnn(to.mkldnn);
  if (from.mkldnn_deterministic != to.mkldnn_deterministic) context.setDeterministicMkldnn(to.mkldnn_deterministic);
  if (from.fp16_reduction != to.fp16_reduction) context.setAllowFP16ReductionCPU(to.fp16_reduction);
  if (from.deterministic != to.deterministic || from.deterministic_warns != to.deterministic_warns)
    context.setDeterministicAlgorithms(to.deterministic, to.deterministic_warns);
  if (from.fills_uninitialized != to.fills_uninitialized)
    context.setDeterministicFillUninitializedMemory(to.fills_uninitialized);
  if (from.flushes_denormals != to.flushes_denormals) at::Context::setFlushDenormal(to.flushes_denormals);
  if (from.default_type != to.default_type) c10::set_default_dtype(c10::scalarTypeToTypeMeta(to.default_type));
  change_autocast(at::kCPU, from.on_cpu, to.on_cpu);
  change_autocast(at::kCUDA, from.on_cuda, to.on_cuda);
  if (from.autocast_caches != to.autocast_caches) at::autocast::set_autocast_cache_enabled(to.autocast_caches);
}

}  // namespace

CudaSwitches CudaSwitches::now() {
  const at::Context& context = at::globalContext();
  const auto float32 = [&](at::Float32Op op) { return context.float32Precision(at::Float32Backend::CUDA, op); };
  return {.cudnn = context.userEnabledCuDNN(),
          .cudnn_deterministic = context.deterministicCuDNN(),
          .cudnn_benchmark = context.benchmarkCuDNN(),
          .float32 = {float32(at::Float32Op::CONV), float32(at::Float32Op::RNN), float32(at::Float32Op::MATMUL)},
          .fp16_reduction = context.allowFP16ReductionCuBLAS(),
          .bf16_reduction = context.allowBF16ReductionCuBLAS(),
          .fp16_accumulation = context.allowFP16AccumulationCuBLAS(),
          .math_attention_reduction = context.allowFP16BF16ReductionMathSDP(),
          .linear_algebra = context.linalgPreferredBackend()};
}

Ambient Ambient::now(base::Device device) {
  const at::Context& context = at::globalContext();
  const auto float32 = [&](at::Float32Op op) { return context.float32Precision(at::Float32Backend::MKLDNN, op); };
  return {.threads = at::get_num_threads(),
          .mkldnn = context.userEnabledMkldnn(),
          .mkldnn_deterministic = context.deterministicMkldnn(),
          .float32 = {float32(at::Float32Op::CONV), float32(at::Float32Op::RNN), float32(at::Float32Op::MATMUL)},
          .fp16_reduction = context.allowFP16ReductionCPU(),
          .deterministic = context.deterministicAlgorithms(),
          .deterministic_warns = context.deterministicAlgorithmsWarnOnly(),
          .fills_uninitialized = context.deterministicFillUninitializedMemory(),
          .flushes_denormals = tensorpager::replay::flushes_denormals(),
          .default_type = c10::typeMetaToScalarType(c10::get_default_dtype()),
          .on_cpu = autocast_on(at::kCPU),
          .on_cuda = autocast_on(at::kCUDA),
          .autocast_caches = at::autocast::is_autocast_cache_enabled(),
          .cuda = device == base::Device::kCuda ? std::optional(CudaSwitches::now()) : std::nullopt};
}

bool Ambient::can_be_set() const {
  const Ambient now = Ambient::now(cuda ? base::Device::kCuda : base::Device::kHost);
  return float32 == now.float32 && cuda == now.cuda;
}

AmbientGuard::AmbientGuard(const Ambient& ambient) : during_(ambient) { change(before_, during_); }
AmbientGuard::~AmbientGuard() { change(during_, before_); }

}  // namespace tensorpager::replay
