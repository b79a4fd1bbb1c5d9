// Host memory that a card may read and write by itself: allocated here, or a program's own that it registered.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace tensorpager::fake_cuda {

class PinnedMemory {
 public:
  /// Returns null if the machine has no room.
  void* allocate(std::size_t bytes);
  /// Whether the address was the start of an allocation.
  bool free(void* address);
  /// Returns false if some of the bytes are pinned already.
  bool add(const void* address, std::size_t bytes);
  bool remove(const void* address);
  /// Whether allocate or add made the range that starts here.
  bool starts_at(const void* address) const;
  /// Bytes from the address to the end of its range; 0 if it is in none.
  std::size_t bytes_at(const void* address) const;

 private:
  struct Range {
    std::size_t bytes;
    bool mapped_here;
  };

  mutable std::mutex mutex_;
  std::map<const char*, Range> ranges_;
};

}  // namespace tensorpager::fake_cuda
