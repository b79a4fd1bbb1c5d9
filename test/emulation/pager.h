// A pager as small as one can be that is right: a hard budget, on demand, least recently used first, copies on two
// streams of their own, ordered by events only. It knows CUDA's runtime API and c10, and would run on a GPU.
//
// A block is used between `use` and `unpin`, and stays at its address meanwhile. What a stream is to do with it is
// queued in that time.
#pragma once

#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "block.h"
#include "free_space.h"
#include "waits.h"

namespace mini_pager {

class Pager {
 public:
  struct Counts {
    std::size_t in_use = 0;
    std::size_t peak = 0;
    std::size_t page_ins = 0;
    std::size_t page_outs = 0;
  };
  using Pinned = std::vector<std::shared_ptr<Block>>;

  /// Takes `budget` bytes of the current device.
  Pager(std::size_t budget, Waits waits, c10::DeleterFnPtr deleter);

  /// A block that the current stream may use; pinned if `pinned` is not null. Throws OutOfMemoryError if it does not
  /// fit beside the pinned blocks.
  Block& allocate(std::size_t bytes, Pinned* pinned);
  /// Pins the block, pages it in and makes the current stream wait until it is there.
  void use(Block& block, c10::StorageImpl& storage, bool writes, Pinned& pinned);
  void unpin(const Pinned& pinned);
  void record_stream(Block& block, c10::Stream stream);
  void free(Block& block);

  std::size_t budget() const { return budget_; }
  Counts counts() const;
  void reset_peak();

 private:
  char* take_range(std::size_t bytes, c10::Stream for_stream);
  Block* least_recently_used() const;
  void page_out(Block& block);
  void page_in(Block& block);
  Fence fence_of_users(const Block& block) const;
  void release_range(Block& block, Fence fence);
  void set_address(Block& block, char* at);

  std::size_t budget_;
  Waits waits_;
  c10::DeleterFnPtr deleter_;  // of every storage's bytes; its context is the block
  c10::Stream page_out_stream_;
  c10::Stream page_in_stream_;
  mutable std::mutex mutex_;  // guards all below, and every block
  FreeSpace free_;
  std::unordered_map<Block*, std::shared_ptr<Block>> blocks_;
  std::uint64_t clock_ = 0;  // of uses
  Counts counts_;
};

}  // namespace mini_pager
