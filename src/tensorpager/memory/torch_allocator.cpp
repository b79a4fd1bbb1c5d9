#include "tensorpager/memory/torch_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "tensorpager/base/errors.h"
#include "tensorpager/memory/torch_storages.h"
#include "tensorpager/pager/shortage.h"

namespace tensorpager::memory {
namespace {

constexpr std::uint8_t kPriority = 255;  // torch keeps the allocator set with the highest

// Deleters are plain functions, so what they need is static. Set once, by the one allocator of the process.
pager::Pager* g_pager = nullptr;
arena::Slabs* g_slabs = nullptr;

void free_small(void* data) { g_slabs->free(data); }
void free_nothing(void*) {}
void free_any(void* data) {
  if (data == nullptr) return;
  if (g_pager->storages().find(data) != nullptr)
    free_block(data);
  else
    free_small(data);
}

}  // namespace

void free_block(void* data) { free_known(*g_pager->storages().find(data)); }
void free_known(pager::Block& block) { g_pager->storages().destroy(block); }
void free_blocks_of(pager::Pager& pager) { g_pager = &pager; }

TorchAllocator::TorchAllocator(pager::Pager& pager, arena::Slabs& slabs, void (*thread_observer)())
    : pager_(pager), slabs_(slabs), thread_observer_(thread_observer) {
  free_blocks_of(pager);
  g_slabs = &slabs;
}

void TorchAllocator::install() {
  previous_ = c10::GetCPUAllocator();
  c10::SetCPUAllocator(this, kPriority);
}

void TorchAllocator::uninstall() {
  if (previous_ != nullptr) c10::SetCPUAllocator(previous_, kPriority);
  previous_ = nullptr;
}

c10::DataPtr TorchAllocator::allocate(std::size_t size) {
  thread_observer_();
  if (size == 0) return {nullptr, nullptr, &free_nothing, at::kCPU};
  try {
    if (size < smallest_block_) {
      void* data = slabs_.allocate(size);
      return {data, data, &free_small, at::kCPU};
    }
    std::byte* data = pager_.storages().create(base::Bytes(size)).data;
    return {data, data, &free_block, at::kCPU};
  } catch (const base::OverBudget& error) {
    pager::note_shortage(error.what());
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: ", error.what());
  } catch (const base::IoError& error) {
    pager::note_shortage(error.what());
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: ", error.what());
  }
}

bool TorchAllocator::is_simple_data_ptr(const c10::DataPtr& pointer) const {
  // Asked before a storage becomes copy-on-write, which then holds the pointer and expects it to be its own context.
  if (pointer.get_deleter() == &TorchStorages::free_claimed)
    return pager_.storages().unclaim(*static_cast<pager::Block*>(pointer.get_context()));
  const c10::DeleterFnPtr deleter = pointer.get_deleter();
  return deleter == &free_block || deleter == &free_small || pointer.get() == pointer.get_context();
}

c10::DeleterFnPtr TorchAllocator::raw_deleter() const { return &free_any; }

void TorchAllocator::copy_data(void* to, const void* from, std::size_t size) const { std::memcpy(to, from, size); }

}  // namespace tensorpager::memory
