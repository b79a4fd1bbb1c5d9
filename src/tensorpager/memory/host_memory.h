// The host's memory, as torch's CPU allocator gives it out, under either binding.
#pragma once

#include "tensorpager/arena/slabs.h"
#include "tensorpager/memory/paged_memory.h"
#include "tensorpager/memory/torch_allocator.h"
#include "tensorpager/memory/torch_storages.h"

namespace tensorpager::memory {

class HostMemory final : public PagedMemory {
 public:
  /// `thread_observer`: see TorchAllocator. Throws IoError if the machine refuses.
  HostMemory(const base::Config& config, void (*thread_observer)());

  pager::Pager& pager() override { return pager_; }
  arena::AddressSpace& space() override { return space_; }
  bool rebinds() const override { return pager_.is_placed(); }
  std::unique_ptr<transfer::Queues> make_queues(const base::Config& config, base::Bytes budget) override;
  void install(const base::Config& config) override;
  void uninstall() override { allocator_.uninstall(); }
  void lock_all() override { slabs_.lock_all(); }
  void unlock_all() override { slabs_.unlock_all(); }
  void reset_locks_in_child() override { slabs_.reset_locks_in_child(); }

 private:
  arena::AddressSpace space_;
  TorchStorages storages_;
  std::unique_ptr<pager::Binding> binding_;
  pager::Pager pager_;
  arena::Slabs slabs_;
  TorchAllocator allocator_;
};

}  // namespace tensorpager::memory
