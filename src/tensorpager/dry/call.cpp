#include "tensorpager/dry/call.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

namespace tensorpager::dry {

at::Tensor unrecorded_like(const at::Tensor& tensor) {
  return at::detail::empty_strided_generic(tensor.sizes(), tensor.strides(), c10::GetDefaultCPUAllocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.scalar_type());
}

}  // namespace tensorpager::dry
