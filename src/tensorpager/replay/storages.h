// Storages as replays handle them: their bytes as they are, without what torch does when somebody asks for a pointer.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "tensorpager/intercept/frame.h"

namespace tensorpager::replay {

/// The block behind the storage; null if it is none of ours, or small.
inline pager::Block* block_of(const c10::Storage& storage) {
  return intercept::g_target.finder().peek(*storage.unsafeGetStorageImpl());
}

/// The pointer of a copy-on-write storage is read as it is: asking for it otherwise would copy the storage.
inline std::span<const std::byte> bytes_of(const c10::Storage& storage) {
  const void* data = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : storage.nbytes()};
}

/// In memory of torch's allocator, which holds anything.
inline c10::Storage new_storage(std::size_t bytes) {
  c10::Allocator* const allocator = c10::GetCPUAllocator();
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, /*resizable=*/true};
}

inline c10::Storage copy_of(const c10::Storage& storage) {
  const auto bytes = bytes_of(storage);
  c10::Storage copy = new_storage(bytes.size());
  if (!bytes.empty())
    std::memcpy(copy.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace tensorpager::replay
