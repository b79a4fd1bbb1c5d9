// Every op of the threads that are paged goes through here first: its blocks are in the budget while it is queued.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string_view>

#include "op_pins.h"
#include "paging_allocator.h"

namespace mini_pager {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

void use_tensor(const at::Tensor& tensor, bool writes) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (Block* block = PagingAllocator::find_block(storage.data_ptr()))
    PagingAllocator::get()->pager().use(*block, storage, writes, *OpPins::current());
}

void use_argument(const c10::IValue& value, bool writes) {
  if (value.isTensor()) {
    use_tensor(value.toTensor(), writes);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) use_tensor(tensor, writes);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) use_tensor(*tensor, writes);
  }
}

/// Whether the schema says that the op writes the argument. It says so of no batch norm's running statistics.
bool writes_argument(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return (argument.alias_info() && argument.alias_info()->isWrite()) ||
         schema.name().find("batch_norm") != std::string::npos;
}

void run_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  PagingAllocator* const allocator = PagingAllocator::get();
  if (!allocator) {
    op.redispatchBoxed(rest, stack);
    return;
  }
  const OpPins pins(allocator->pager());
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    use_argument((*stack)[first + i], writes_argument(op.schema(), arguments[i]));
  op.redispatchBoxed(rest, stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_op>());
}

}  // namespace
}  // namespace mini_pager

extern "C" {

__attribute__((visibility("default"))) void mini_pager_start(std::size_t budget) {
  mini_pager::PagingAllocator::install(budget);
  // Of this thread; the threads of autograd take it over from the thread that calls them.
  c10::impl::tls_set_dispatch_key_included(mini_pager::kKey, true);
}

__attribute__((visibility("default"))) std::size_t mini_pager_page_ins() {
  return mini_pager::PagingAllocator::get()->pager().counts().page_ins;
}
}
