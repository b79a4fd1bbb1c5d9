// torch's CPU allocator while a session runs: blocks from the pager, small ones from slabs. A context equals its data
// pointer, since oneDNN takes scratch memory through raw_allocate; a block is found again by its address.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>

#include "tensorpager/arena/slabs.h"
#include "tensorpager/base/config.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::memory {

/// The deleter of a block that is known by its address, as each is at first; and of one that is known itself.
void free_block(void* data);
void free_known(pager::Block& block);
/// Of which pager the blocks are that deleters free: deleters are plain functions, so a process has one.
void free_blocks_of(pager::Pager& pager);

class TorchAllocator final : public c10::Allocator {
 public:
  /// Both must live for ever: storages may outlive everything else. `thread_observer` is called on each allocation,
  /// with no lock held: a thread that allocates is one whose ops must be seen.
  TorchAllocator(pager::Pager& pager, arena::Slabs& slabs, void (*thread_observer)());

  /// Makes this torch's CPU allocator; `uninstall` brings back the one before. Memory given out is still served.
  void install();
  void uninstall();
  /// Allocations below this size come from slabs and are no blocks; kMinPagedBytes by default, and never above it.
  void set_smallest_block(base::Bytes size) { smallest_block_ = std::min(size, base::kMinPagedBytes).count(); }

  c10::DataPtr allocate(std::size_t size) override;
  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t size) const override;

 private:
  pager::Pager& pager_;
  arena::Slabs& slabs_;
  void (*thread_observer_)();
  std::size_t smallest_block_ = base::kMinPagedBytes.count();
  c10::Allocator* previous_ = nullptr;
};

}  // namespace tensorpager::memory
