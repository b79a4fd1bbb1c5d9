#include "tensorpager/cuda/blas_workspaces.h"

#include <ATen/cuda/CUDAContext.h>
#include <torch/headeronly/version.h>

#include <algorithm>

#include "tensorpager/base/errors.h"
#include "tensorpager/memory/torch_allocator.h"

namespace tensorpager::cuda {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15

void BlasWorkspaces::note(const pager::Block&) {}
void BlasWorkspaces::before_allocation(base::Bytes) {}
void BlasWorkspaces::replace(void*) {}

#else

namespace {

void keep_for_good(void*) {}

}  // namespace

void BlasWorkspaces::note(const pager::Block& block) {
  if (block.size.count() != at::cuda::getChosenWorkspaceSize()) return;
  const std::lock_guard lock(mutex_);
  candidates_.push_back(block.data);
  has_candidates_.store(true, std::memory_order_relaxed);
}

void BlasWorkspaces::before_allocation(base::Bytes size) {
  if (!has_candidates_.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (size.count() == at::cuda::getChosenWorkspaceSize()) return;  // torch may hold the lock of its table
  std::vector<void*> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates.swap(candidates_);
    has_candidates_.store(false, std::memory_order_relaxed);
  }
  for (void* const at : candidates) {
    pager::Block* const block = pager_.find_around(at);
    if (block == nullptr || block->data != at || (block->state() & pager::kUnclaimed) == 0) continue;
    if ((block->state() & pager::kPinMask) == 0)
      replace(at);
    else
      note(*block);
  }
}

/// The old one is freed first, as two may not fit. Nobody but this thread can need it: torch asks its table, of which
/// we hold the lock.
void BlasWorkspaces::replace(void* at) {
  auto& table = at::cuda::cublas_handle_stream_to_workspace();
  const std::unique_lock lock(table.mutex);
  const auto found = std::ranges::find_if(table.map, [&](const auto& entry) { return entry.second.get() == at; });
  if (found == table.map.end()) return;  // a tensor that no op has used yet
  c10::DataPtr& workspace = found->second;
  const c10::Device device = workspace.device();
  workspace.clear();
  const base::Bytes size(at::cuda::getChosenWorkspaceSize());
  try {
    void* const own = pager_.acquire_for_good(size);
    workspace = {own, own, &keep_for_good, device};
  } catch (const base::OverBudget&) {
    void* const again = pager_.create(size).data;  // where it was, at least
    workspace = {again, again, &memory::free_block, device};
  }
}

#endif

}  // namespace tensorpager::cuda
