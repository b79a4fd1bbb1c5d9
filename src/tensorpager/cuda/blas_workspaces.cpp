#include "tensorpager/cuda/blas_workspaces.h"

#include <ATen/cuda/CUDAContext.h>
#include <torch/headeronly/version.h>

#include <algorithm>

#include "tensorpager/base/errors.h"
#include "tensorpager/memory/torch_allocator.h"

namespace tensorpager::cuda {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15

base::Bytes BlasWorkspaces::usual() { return base::Bytes(0); }
bool BlasWorkspaces::may_be_one(base::Bytes, device::Queue) { return false; }
void BlasWorkspaces::note(const pager::Block&, device::Queue) {}
void BlasWorkspaces::before_allocation(base::Bytes) {}
bool BlasWorkspaces::replace(void*) { return false; }

#else

namespace {

void keep_for_good(void*) {}

}  // namespace

base::Bytes BlasWorkspaces::usual() { return base::Bytes(2 * at::cuda::getChosenWorkspaceSize()); }

bool BlasWorkspaces::may_be_one(base::Bytes size, device::Queue queue) {
  if (size.count() != at::cuda::getChosenWorkspaceSize()) return false;
  const std::lock_guard lock(mutex_);
  return !have_one_.contains({std::this_thread::get_id(), queue});
}

void BlasWorkspaces::note(const pager::Block& block, device::Queue queue) {
  const std::lock_guard lock(mutex_);
  candidates_.push_back({block.data, {std::this_thread::get_id(), queue}});
  has_candidates_.store(true, std::memory_order_relaxed);
}

void BlasWorkspaces::before_allocation(base::Bytes size) {
  if (!has_candidates_.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (size.count() == at::cuda::getChosenWorkspaceSize()) return;  // torch may hold the lock of its table
  std::vector<Candidate> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates.swap(candidates_);
    has_candidates_.store(false, std::memory_order_relaxed);
  }
  for (const Candidate& candidate : candidates) {
    const pager::Block* const block = pager_.find_around(candidate.at);
    if (block == nullptr || block->data != candidate.at || (block->state() & pager::kUnclaimed) == 0) continue;
    const bool is_in_use = (block->state() & pager::kPinMask) != 0;
    const bool is_one = !is_in_use && replace(candidate.at);
    const std::lock_guard lock(mutex_);
    if (is_one) have_one_.insert(candidate.user);
    if (!is_in_use) continue;
    candidates_.push_back(candidate);
    has_candidates_.store(true, std::memory_order_relaxed);
  }
}

/// The old one is freed first, as two may not fit. Nobody but this thread can need it: torch asks its table, of which
/// we hold the lock.
bool BlasWorkspaces::replace(void* at) {
  auto& table = at::cuda::cublas_handle_stream_to_workspace();
  const std::unique_lock lock(table.mutex);
  const auto found = std::ranges::find_if(table.map, [&](const auto& entry) { return entry.second.get() == at; });
  if (found == table.map.end()) return false;  // a tensor that no op has used yet
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
  return true;
}

#endif

}  // namespace tensorpager::cuda
