// The lives of blocks, as the program's storages come and go, and memory that is no storage's: slabs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/event_sink.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/following.h"

namespace tensorpager::pager {

class Storages {
 public:
  /// Both must outlive this.
  Storages(Core& core, Following& following) : core_(core), following_(following) {}

  /// A block for `size` bytes (at least 1), pinned by the op that runs on this thread. Throws OverBudget, IoError.
  Block& create(base::Bytes size) {
    return core_.relief.with([&]() -> Block& { return create_once(size); });
  }
  void destroy(Block& block) noexcept;
  /// The block that starts exactly here; null if none does. Takes no lock.
  Block* find(const void* first) const { return static_cast<Block*>(core_.space.owner_at(first)); }
  /// Names the storage that holds the block (rebinding): from now on the block may be evicted.
  void claim(Block& block, void* holder);
  /// The storage may hand its block on, so the block keeps its address. Returns false if the block is paged out.
  bool unclaim(Block& block);

  /// A charged chunk for the slabs. Throws as `create`.
  std::byte* acquire_slab_chunk(base::Bytes size) {
    return core_.relief.with([&] { return acquire_slab_chunk_once(size); });
  }
  /// Memory that is used to the end of the process by something that keeps its address, as a library's workspace. It is
  /// charged like a slab chunk, and lies among them. Throws as `create`.
  std::byte* acquire_for_good(base::Bytes size) {
    std::byte* const at = acquire_slab_chunk(size);
    for_good_.fetch_add(size.count(), std::memory_order_relaxed);
    return at;
  }
  /// Bytes of `acquire_for_good`. Takes no lock.
  base::Bytes acquired_for_good() const { return base::Bytes(for_good_.load(std::memory_order_relaxed)); }

 private:
  base::EventSink* sink_of(const Block& block) const;
  Block& create_once(base::Bytes size);
  void destroy_block(Block& block) noexcept;
  std::byte* acquire_slab_chunk_once(base::Bytes size);

  Core& core_;
  Following& following_;
  std::uint64_t births_ = 0;                // blocks ever made
  std::atomic<std::uint64_t> for_good_{0};  // bytes
};

}  // namespace tensorpager::pager
