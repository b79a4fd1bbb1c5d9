#include "tensorpager/cuda/blas_workspaces.h"

#include <ATen/cuda/CUDAContext.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <optional>

#include "tensorpager/base/errors.h"

namespace tensorpager::cuda {
namespace {

BlasWorkspaces* g_workspaces = nullptr;  // deleters are plain functions

struct OfThread {
  device::QueueSet prepared = device::kNoQueue;
  std::uint64_t freed = 0;              // see BlasWorkspaces::freed_, when they were prepared
  std::optional<device::Queue> taking;  // while torch takes them: the queue that they are for
};
constinit thread_local OfThread t_workspaces;

}  // namespace

BlasWorkspaces::BlasWorkspaces(pager::Pager& pager) : pager_(pager) { g_workspaces = this; }

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15

base::Bytes BlasWorkspaces::usual() { return base::Bytes(0); }
void BlasWorkspaces::prepare(device::Queue) {}

#else

/// torch is not asked for cuBLASLt's size, as it may warn of it, in programs that never use it.
base::Bytes BlasWorkspaces::usual() {
  constexpr std::size_t kOfLt = std::size_t{1} << 20;  // by default, and no more than cuBLAS's
  const std::size_t of_blas = at::cuda::getChosenWorkspaceSize();
  return base::Bytes(2 * (of_blas + std::min(of_blas, kOfLt)));
}

void BlasWorkspaces::prepare(device::Queue queue) {
  OfThread& mine = t_workspaces;
  if (const std::uint64_t freed = freed_.load(std::memory_order_relaxed); mine.freed != freed) [[unlikely]]
    mine = {.prepared = device::kNoQueue, .freed = freed, .taking = mine.taking};
  if ((mine.prepared & device::set_of(queue)) != 0 || mine.taking) [[likely]]
    return;
  struct Taking {
    explicit Taking(device::Queue queue) { t_workspaces.taking = queue; }
    ~Taking() { t_workspaces.taking.reset(); }
  } const taking(queue);
  at::cuda::getCurrentCUDABlasHandle();
  at::cuda::getCUDABlasLtWorkspace();
  mine.prepared |= device::set_of(queue);
}

#endif

void* BlasWorkspaces::take(base::Bytes size) {
  if (!t_workspaces.taking) [[likely]]
    return nullptr;
  const Kind kind{size, *t_workspaces.taking};
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [&](void* at) { return kinds_.at(at) == kind; });
    if (found != free_.end()) {
      void* const at = *found;
      free_.erase(found);
      return at;
    }
  }
  try {
    void* const at = pager_.storages().acquire_for_good(size);
    const std::lock_guard lock(mutex_);
    kinds_.emplace(at, kind);
    return at;
  } catch (const base::OverBudget&) {
    return nullptr;
  }
}

void BlasWorkspaces::give_back(void* at) {
  const std::lock_guard lock(g_workspaces->mutex_);
  g_workspaces->free_.push_back(at);
  g_workspaces->freed_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tensorpager::cuda
