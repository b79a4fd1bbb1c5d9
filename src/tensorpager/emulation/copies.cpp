// Copies between the host and the device, and between tensors of one layout, are torch's own host code over
// cudaMemcpyAsync, with what it does for pinned memory and other streams. Only copies that would launch a kernel are
// emulated here.
#include "tensorpager/emulation/late_ops.h"
#include "tensorpager/emulation/tensors.h"
#include "tensorpager/emulation/torch_internals.h"

namespace tensorpager::emulation {
namespace {

/// Whether a copy needs no kernel, as torch decides it.
bool is_memcpy(const at::Tensor& to, const at::Tensor& from) {
  return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && to.strides() == from.strides() &&
         to.is_non_overlapping_and_dense() && to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

}  // namespace

void run_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor to = (*stack)[first].toTensor(), from = (*stack)[first + 1].toTensor();
  const bool takes_kernel = is_on_device(to) && to.device() == from.device() && to.numel() > 0 && !is_memcpy(to, from);
  if (takes_kernel) return run_late(op, keys, stack);
  op.redispatchBoxed(c10::DispatchKeySet(kAnyBackend), stack);
}

}  // namespace tensorpager::emulation
