// Storages as replays handle them: their bytes as they are, without what torch does when somebody asks for a pointer.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <span>
#include <utility>

#include "tensorpager/intercept/frame.h"

namespace tensorpager::replay {

/// The block behind the storage; null if it is none of ours, or small.
inline pager::Block* block_of(const c10::Storage& storage) {
  return intercept::g_target.finder().peek(*storage.unsafeGetStorageImpl());
}

/// On a device the host must not read them. The pointer of a copy-on-write storage is read as it is: asking for it
/// otherwise would copy the storage.
inline std::span<const std::byte> bytes_of(const c10::Storage& storage) {
  const void* data = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : storage.nbytes()};
}

/// In memory of torch's allocator, which holds anything. Throws c10::OutOfMemoryError.
inline c10::Storage new_storage(std::size_t bytes, c10::DeviceType device) {
  c10::Allocator* const allocator = c10::GetAllocator(device);
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, /*resizable=*/true};
}

/// Where the storage is. On a device the copy is work of the thread's current stream.
inline c10::Storage copy_of(const c10::Storage& storage) {
  const auto bytes = bytes_of(storage);
  c10::Storage copy = new_storage(bytes.size(), storage.device_type());
  void* const to = copy.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  if (!bytes.empty()) copy.allocator()->copy_data(to, bytes.data(), bytes.size());
  return copy;
}

/// Whether both hold the same bytes. Blocks until a device has done what makes them.
bool have_same_bytes(const c10::Storage& one, const c10::Storage& other);

}  // namespace tensorpager::replay
