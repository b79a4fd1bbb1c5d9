// Work at op boundaries: a task of the guide's, the witness, the fuzzer.
#include <algorithm>
#include <functional>
#include <utility>

#include "tensorpager/arena/witness.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {

void Pager::call_at_boundary(std::function<void()> task, std::uint64_t after_ops) {
  const Lock lock(*this);
  boundary_work_.set_task(std::move(task), clock_.load(std::memory_order_relaxed) + after_ops);
}

void Pager::run_task(std::uint64_t now) {
  std::function<void()> task;
  {
    const Lock lock(*this);
    task = boundary_work_.take_task(now);
  }
  if (task) task();
}

void Pager::do_boundary_work(std::uint64_t now) {
  const PagingTime paging(t_state.top == nullptr && sink() != nullptr, nullptr);
  if (t_state.top == nullptr) run_task(now);
  const Lock lock(*this);
  if (witness_ops_ != 0 && now % witness_ops_ == 0) {
    transfers_.await_relocations();  // else pages that another thread moves meanwhile could be counted twice
    const std::uint64_t resident = arena::resident_size(space_.begin(), space_.end()).count();
    counts_.witness_peak_bytes = std::max(counts_.witness_peak_bytes, resident);
  }
  if (fuzzer_)
    fuzzer_->op_begins(now, table_, transfers_, executor_,
                       t_state.replaying != Replaying::kNo ? nullptr : rebuilder_.load(), counts_);
}

}  // namespace tensorpager::pager
