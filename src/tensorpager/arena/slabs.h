// Blocks below the smallest paged size (R3): charged by the chunk, never evicted. Free lists are kept per thread, so
// the usual path takes no lock; what a thread frees beyond a few goes to a shared list, because one thread may allocate
// what another frees. Chunks are kept for the life of the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/config.h"

namespace tensorpager::arena {

class Slabs {
 public:
  static constexpr base::Bytes kChunk{std::uint64_t{64} << 10};

  /// Gives a populated chunk of kChunk bytes, aligned to its size, and charges it; may throw.
  using ChunkSource = std::function<std::byte*()>;
  explicit Slabs(ChunkSource source);
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  /// `size` from 1 byte to below kMinPagedBytes; the result is aligned to 64 bytes. Throws what the source throws.
  void* allocate(std::size_t size);
  void free(void* block) noexcept;

  /// For fork: no list may be half changed in the child.
  void lock_all();
  void unlock_all();
  void reset_locks_in_child();

 private:
  static constexpr std::size_t kClasses = 28;
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kSteps = base::kMinPagedBytes.count() / kStep;

  struct FreeBlock {
    FreeBlock* next;
  };
  struct List {
    FreeBlock* first = nullptr;
    std::uint32_t count = 0;
  };
  /// Lists of one thread. Its owner gives them to the shared lists when the thread ends.
  struct ThreadLists {
    std::array<List, kClasses> lists;
  };
  struct Shared {
    std::mutex mutex;
    List list;
  };

  ThreadLists* lists_of_this_thread();
  void refill(List& list, std::size_t size_class);
  void spill(List& list, std::size_t size_class, std::uint32_t keep);
  void adopt(ThreadLists& lists) noexcept;
  friend struct SlabThreadExit;

  ChunkSource source_;
  std::array<std::uint16_t, kClasses> sizes_{};
  std::array<std::uint8_t, kSteps + 1> class_of_step_{};
  std::array<Shared, kClasses> shared_;
};

}  // namespace tensorpager::arena
