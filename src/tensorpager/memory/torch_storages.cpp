#include "tensorpager/memory/torch_storages.h"

#include <utility>

#include "tensorpager/memory/storage_access.h"
#include "tensorpager/memory/torch_allocator.h"

namespace tensorpager::memory {
namespace {

using pager::Block;

constexpr const char* kPagedOut =
    "Tensorpager: the tensor is paged out, and something read its memory outside of any op; keep it resident with "
    "tensorpager.pin(tensor) meanwhile, or run with --binding stable";

c10::StorageImpl& storage_of(const Block& block) { return *static_cast<c10::StorageImpl*>(block.holder); }

}  // namespace

bool TorchStorages::claim(Block& block, void* holder) {
  auto& storage = *static_cast<c10::StorageImpl*>(holder);
  c10::DataPtr& pointer = storage._mutable_data_ptr_no_checks();
  const bool is_fresh = pointer.get_deleter() == &free_block && pointer.get() == block.data;
  const bool has_moved_here = pointer.get_deleter() == &free_claimed && pointer.get_context() == &block;
  if (!is_fresh && !has_moved_here) return false;
  if (is_fresh) {
    pointer.release_context();
    storage.set_data_ptr_noswap({block.data, &block, &free_claimed, pointer.device()});
  }
  if (block.holder != nullptr) forget(block);
  // Keeps the record, not the tensor: its block may be read while it dies.
  c10::raw::weak_intrusive_ptr::incref(&storage);
  block.holder = &storage;
  return true;
}

void TorchStorages::give_up(Block& block) {
  if (has(block)) {
    c10::StorageImpl& storage = storage_of(block);
    storage._mutable_data_ptr_no_checks().release_context();
    storage.set_data_ptr_noswap({block.data, block.data, &free_block, storage.device()});
  }
  if (block.holder != nullptr) forget(block);
}

bool TorchStorages::has(const Block& block) const {
  if (block.holder == nullptr) return false;
  const c10::DataPtr& pointer = storage_of(block)._mutable_data_ptr_no_checks();
  return pointer.get_deleter() == &free_claimed && pointer.get_context() == &block;
}

void TorchStorages::set_data(Block& block, std::byte* data) {
  c10::StorageImpl& storage = storage_of(block);
  if (data == nullptr && raises_) mark(storage, kPagedOut);
  set_data_pointer(storage, data);
  if (data != nullptr) clear_mark(storage);
}

void TorchStorages::stop_raising(std::span<Block* const> absent) {
  raises_ = false;
  for (const Block* block : absent)
    if (block->holder != nullptr) clear_mark(storage_of(*block));
}

void TorchStorages::forget(Block& block) noexcept {
  c10::raw::weak_intrusive_ptr::decref(&storage_of(block));
  block.holder = nullptr;
}

void TorchStorages::free_claimed(void* block) { free_known(*static_cast<Block*>(block)); }

}  // namespace tensorpager::memory
