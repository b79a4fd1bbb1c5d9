// The memory of one device: sparse, so a card may be larger than the machine. It is mapped twice. Device addresses,
// which the host holds, may not be read or written; at a distance from each is the view that kernels use.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>

#include "tensorpager/fake_cuda/memory_book.h"

namespace tensorpager::fake_cuda {

class DeviceMemory {
 public:
  /// Throws IoError if the machine cannot map it.
  DeviceMemory(std::size_t bytes, Fit fit);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// A device address; null if the device is full.
  void* allocate(std::size_t bytes);
  /// Returns the bytes of the block that began there, whose pages are given back; nullopt if none did.
  std::optional<std::size_t> free(void* address);
  bool holds(const void* address) const;
  /// Bytes from the address to the end of its block; 0 if it is in none.
  std::size_t bytes_at(const void* address) const;
  void* view(const void* address) const { return view_ + offset_of(address); }
  const void* base() const { return base_; }
  std::size_t span() const { return span_; }  // bytes of addresses, which are more than there is memory
  std::size_t used() const;
  std::size_t total() const { return book_.limit(); }

 private:
  std::size_t offset_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const char*>(address) - base_);
  }

  mutable std::mutex mutex_;
  MemoryBook book_;
  std::size_t span_;
  int file_ = -1;
  char* base_ = nullptr;  // PROT_NONE
  char* view_ = nullptr;
};

}  // namespace tensorpager::fake_cuda
