// Finds the blocks behind tensors. By address, not by deleter: an alias imported through DLPack or a copy-on-write
// storage is another storage on the same block.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/intercept/foreign.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::intercept {

/// The parts of a sparse tensor, which has no storage of its own.
[[gnu::noinline]] void for_each_part(const at::TensorBase& tensor,
                                     c10::function_ref<void(const at::TensorBase&)> visit);

/// Calls `visit(tensor)` for each tensor in a value: by itself, in a list or in a tuple.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor() && !element.isList() && !element.isTuple() && !element.isNone()) return;
      for_each_tensor(element, visit);
    }
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) for_each_tensor(element, visit);
  }
}

class BlockFinder {
 public:
  /// `claimed`: the deleter of storages whose context is their block (the rebinding binding); null if blocks keep their
  /// address.
  BlockFinder(pager::Pager& pager, const arena::AddressSpace& space, c10::DeleterFnPtr claimed)
      : pager_(pager), space_(space), claimed_(claimed) {}

  /// Calls `visit(block)` for each block behind the tensor; nothing for undefined, meta, fake, small and foreign ones.
  template <typename Visit>
  void in_tensor(const at::TensorBase& tensor, Visit&& visit) const {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (!tensor.defined()) return;
    if (!impl->has_storage()) [[unlikely]] {
      for_each_part(tensor, [&](const at::TensorBase& part) { in_tensor(part, visit); });
      return;
    }
    c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    if (storage != nullptr) in_storage(*storage, visit);
  }

  template <typename Visit>
  void in_storage(c10::StorageImpl& storage, Visit&& visit) const {
    const c10::DataPtr& pointer = storage._mutable_data_ptr_no_checks();
    if (claimed_ != nullptr && pointer.get_deleter() == claimed_) {
      auto& block = *static_cast<pager::Block*>(pointer.get_context());
      if (block.holder != &storage) [[unlikely]]
        pager_.storages().claim(block, &storage);
      visit(block);
      return;
    }
    const void* data = pointer.get();
    if (!space_.contains(data)) {
      if (data != nullptr) [[unlikely]]
        note_foreign(storage);
      return;
    }
    if (space_.is_slab(data)) return;
    pager::Block* block = pager_.storages().find(data);
    if (block == nullptr) return;
    if (claimed_ != nullptr) pager_.storages().claim(*block, &storage);
    visit(*block);
  }

  /// The block behind a storage, which does not claim it now; null if it is none of ours, or small.
  pager::Block* peek(c10::StorageImpl& storage) const {
    const c10::DataPtr& pointer = storage._mutable_data_ptr_no_checks();
    if (claimed_ != nullptr && pointer.get_deleter() == claimed_)
      return static_cast<pager::Block*>(pointer.get_context());
    const void* data = pointer.get();
    return space_.contains(data) && !space_.is_slab(data) ? pager_.storages().find(data) : nullptr;
  }

  template <typename Visit>
  void in_value(const c10::IValue& value, Visit&& visit) const {
    if (value.isTensor()) return in_tensor(value.toTensor(), visit);
    // set_() compares addresses, and reads no bytes: a storage that keeps its address need not be resident.
    if (claimed_ != nullptr && value.isStorage()) [[unlikely]]
      return in_storage(*value.toStorage().unsafeGetStorageImpl(), visit);
    for_each_tensor(value, [&](const at::TensorBase& tensor) { in_tensor(tensor, visit); });
  }

 private:
  pager::Pager& pager_;
  const arena::AddressSpace& space_;
  c10::DeleterFnPtr claimed_;
};

}  // namespace tensorpager::intercept
