// cuBLAS's and cuBLASLt's workspaces: 32 MiB and 1 MiB for each thread and stream on a recent card, that torch takes
// from its allocator within the first product of matrices, and keeps. So they would stay where they happened to be
// placed, in the midst of what is paged, and no plan would know of them. Before that op torch is made to take them, and
// is given memory at the end of the arena where slabs are.
//
// From torch 2.15 on an op frees its workspace, and there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::cuda {

class BlasWorkspaces {
 public:
  /// One in a process, which lives for ever.
  explicit BlasWorkspaces(pager::Pager& pager);

  /// Bytes of the workspaces that most programs have: of the thread that runs the forward pass, and of the one that
  /// runs the backward pass. CUDA is initialised.
  static base::Bytes usual();

  /// Has torch take this thread's workspaces for the queue, which is the current one, unless it has. Throws torch's
  /// errors.
  void prepare(device::Queue queue);
  /// Memory that is never paged, if this thread takes a workspace now and there is room; else null.
  void* take(base::Bytes size);
  /// torch frees a workspace. It serves the next one of its size in its queue, where kernels may still use it.
  static void give_back(void* at);

 private:
  struct Kind {
    base::Bytes size;
    device::Queue queue;
    friend bool operator==(const Kind&, const Kind&) = default;
  };

  pager::Pager& pager_;
  std::mutex mutex_;
  std::unordered_map<void*, Kind> kinds_;  // of all that were taken
  std::vector<void*> free_;
  std::atomic<std::uint64_t> freed_{0};  // how often one was; what threads have taken before may be gone then
};

}  // namespace tensorpager::cuda
