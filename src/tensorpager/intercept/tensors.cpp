#include "tensorpager/intercept/tensors.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

namespace tensorpager::intercept {

void for_each_part(const at::TensorBase& tensor, c10::function_ref<void(const at::TensorBase&)> visit) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::Python) || !keys.has_backend(c10::BackendComponent::CPUBit)) return;
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (tensor.layout() == at::kSparse) {
    const auto* sparse = static_cast<at::SparseTensorImpl*>(impl);
    visit(sparse->indices());
    visit(sparse->values());
  } else if (const auto layout = tensor.layout(); layout == at::kSparseCsr || layout == at::kSparseCsc ||
                                                  layout == at::kSparseBsr || layout == at::kSparseBsc) {
    const auto* sparse = static_cast<at::SparseCsrTensorImpl*>(impl);
    visit(sparse->compressed_indices());
    visit(sparse->plain_indices());
    visit(sparse->values());
  }
}

}  // namespace tensorpager::intercept
