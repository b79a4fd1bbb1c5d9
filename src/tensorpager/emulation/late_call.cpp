#include "tensorpager/emulation/late_call.h"

#include <ATen/core/op_registration/adaption.h>

#include <string>

#include "tensorpager/emulation/tensors.h"

namespace tensorpager::emulation {

Place place_of(const c10::OperatorHandle& op, const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments) {
  Place place;
  for (const c10::IValue& argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!tensor.is_cuda()) return;
      if (!place.device) place.device = tensor.device();
      place.is_one = place.is_one && tensor.device() == *place.device;
    });
    if (!place.device && argument.isDevice() && argument.toDevice().is_cuda()) place.device = argument.toDevice();
  }
  // The generic kernel checks by itself, or the `out=` op that it calls is checked here.
  if (!place.device || traits.mixes_devices || traits.course == Course::kGeneric) return place;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (tensor.device() == *place.device || (tensor.is_cpu() && tensor.dim() == 0)) return;
      const std::string method =
          "wrapper_CUDA_" + op.operator_name().name.substr(op.operator_name().name.find("::") + 2);
      c10::impl::common_device_check_failure(*place.device, tensor, method.c_str(),
                                             op.schema().arguments()[i].name().c_str());
    });
  }
  return place;
}

c10::IValue late_argument(const OpTraits& traits, const c10::IValue& value, std::size_t i, Operands& with) {
  if (static_cast<int>(i) == traits.generator)
    return generator_of(reserve_random(value.isNone() ? std::nullopt : std::optional(value.toGenerator())));
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  return map_tensors(value, [&](const at::Tensor& tensor) { return with.alias(tensor, traits.writes[i]); });
}

void call_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  // torch's boxed `out=` kernels that return several references drop the stack before they copy what it held.
  const torch::jit::Stack held = stack;
  op.callBoxed(stack);
}

fake_cuda::Work work_of(const OpTraits& traits, const std::vector<c10::IValue>& arguments) {
  if (traits.arithmetic == roofline::Arithmetic::kNone) return {};
  std::vector<at::TensorBase> tensors;
  for (const c10::IValue& argument : arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  if (tensors.empty()) return {};
  return {.flops = roofline::flops_of(traits.arithmetic, tensors, arguments),
          .op_class = base::class_of(traits.name),
          .precision = roofline::precision_of(tensors.front())};
}

}  // namespace tensorpager::emulation
