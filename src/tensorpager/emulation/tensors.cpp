#include "tensorpager/emulation/tensors.h"

#include "tensorpager/emulation/torch_internals.h"

namespace tensorpager::emulation {

at::Tensor over(c10::Storage storage, c10::DispatchKey backend, const at::Tensor& like) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(backend), like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  at::Tensor tensor(std::move(impl));
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

at::Tensor meta_of(const at::Tensor& tensor) {
  if (!is_on_device(tensor)) return tensor;
  c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(), c10::DataPtr(nullptr, c10::kMeta),
                       c10::GetAllocator(c10::kMeta), true);
  return over(std::move(storage), c10::DispatchKey::Meta, tensor);
}

at::Tensor value_of(const at::Tensor& tensor) {
  const BackendOnly plain;
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace tensorpager::emulation
