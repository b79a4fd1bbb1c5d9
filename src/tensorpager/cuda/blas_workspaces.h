// cuBLAS's workspaces: 32 MiB for each thread and stream on a recent card, that torch takes from its allocator within
// the first op that needs it, and keeps. So they would stay where they happened to be placed, in the midst of what is
// paged. After that op such memory is replaced by some of our own, at the end of the arena where slabs are; torch tells
// cuBLAS the address at each call.
//
// From torch 2.15 on an op frees its workspace, and there is nothing to do.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::cuda {

class BlasWorkspaces {
 public:
  explicit BlasWorkspaces(pager::Pager& pager) : pager_(pager) {}

  /// Bytes of the workspaces that most programs have: of the thread that runs the forward pass, and of the one that
  /// runs the backward pass. CUDA is initialised.
  static base::Bytes usual();
  /// Whether what this thread allocates may be the workspace of this queue: it has none yet, and that is its size. If
  /// so, it is best placed where it can stay, and noted.
  bool may_be_one(base::Bytes size, device::Queue queue);
  void note(const pager::Block& block, device::Queue queue);
  /// Replaces those that are, and whose ops are over. `size`: of what is to be allocated now. Throws as
  /// Pager::acquire_for_good, before it changes anything.
  void before_allocation(base::Bytes size);

 private:
  using User = std::pair<std::thread::id, device::Queue>;
  struct Candidate {
    void* at;
    User user;
  };

  bool replace(void* at);

  pager::Pager& pager_;
  std::mutex mutex_;
  std::vector<Candidate> candidates_;  // of ops that may not be over
  std::set<User> have_one_;
  std::atomic<bool> has_candidates_{false};
};

}  // namespace tensorpager::cuda
