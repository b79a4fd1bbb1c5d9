#include "tensorpager/dry/shapes.h"

#include <ATen/ops/empty_strided.h>

#include <atomic>

#include "tensorpager/dry/key.h"
#include "tensorpager/dry/shape_table.h"

namespace tensorpager::dry {
namespace {

std::atomic<std::uint64_t> g_asked{0};

/// A number that was made a tensor stays one on the CPU: meta kernels read its value.
at::Tensor on_meta(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
}

c10::IValue on_meta(const c10::IValue& value) {
  if (value.isTensor()) return on_meta(value.toTensor());
  if (value.isDevice()) return c10::Device(at::kMeta);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& element : value.toListRef()) list.push_back(on_meta(element.toTensor()));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& element : value.toListRef())
      list.push_back(element.isTensor() ? std::optional(on_meta(element.toTensor())) : std::nullopt);
    return list;
  }
  return value;
}

bool has_shapes(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::Meta) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

bool describe_by_shapes(const Call& call, Outcome& outcome) {
  const ShapeFunction by_table = find_shape_function(call.traits.name);
  if (by_table == nullptr && !has_shapes(call.op)) return false;
  g_asked.fetch_add(1, std::memory_order_relaxed);
  const BackendGuard guard;
  torch::jit::Stack stack;
  for (const c10::IValue& value : call.arguments()) stack.push_back(on_meta(value));
  // Kept over the call: a boxed kernel that returns references to arguments drops the stack's before it reads them.
  const torch::jit::Stack arguments = stack;
  try {
    if (by_table != nullptr)
      stack = by_table(arguments);
    else
      call.op.callBoxed(stack);
  } catch (const std::exception&) {  // a meta kernel refuses what depends on values; other errors the real run repeats
    return false;
  }
  return describe(tensor_arguments(call.traits, arguments), stack, outcome);
}

std::uint64_t shapes_asked() { return g_asked.load(std::memory_order_relaxed); }

}  // namespace tensorpager::dry
