#include "tensorpager/pager/op_boundaries.h"

#include <algorithm>
#include <utility>

#include "tensorpager/arena/witness.h"

namespace tensorpager::pager {

void OpBoundaries::begin_session(const std::optional<Fuzzer>& fuzzer, std::uint64_t witness_ops) {
  fuzzer_ = fuzzer;
  witness_ops_ = witness_ops;
  work_.set_work_at_each_op(fuzzer_ || witness_ops_ != 0);
}

void OpBoundaries::end_drops() {
  if (fuzzer_) fuzzer_->end_drops();
}

void OpBoundaries::end_session() {
  begin_session(std::nullopt, 0);
  forget_task();
}

void OpBoundaries::call_once(std::function<void()> task, std::uint64_t after_ops) {
  const Lock lock(core_.mutex);
  work_.set_task(std::move(task), core_.clock.load(std::memory_order_relaxed) + after_ops);
}

void OpBoundaries::run_task(std::uint64_t now) {
  std::function<void()> task;
  {
    const Lock lock(core_.mutex);
    task = work_.take_task(now);
  }
  if (task) task();
}

void OpBoundaries::do_work(std::uint64_t now) {
  const PagingTime paging(t_state.top == nullptr && core_.sink.load(std::memory_order_acquire) != nullptr, nullptr);
  if (t_state.top == nullptr) run_task(now);
  const Lock lock(core_.mutex);
  if (witness_ops_ != 0 && now % witness_ops_ == 0) {
    core_.transfers.await_relocations();  // else pages that another thread moves meanwhile could be counted twice
    const std::uint64_t resident = arena::resident_size(core_.space.begin(), core_.space.end()).count();
    core_.counts.witness_peak_bytes = std::max(core_.counts.witness_peak_bytes, resident);
  }
  Rebuilder* const rebuilder = t_state.replaying != Replaying::kNo ? nullptr : core_.rebuilder.load();
  if (fuzzer_) fuzzer_->op_begins(now, core_.table, core_.transfers, core_.executor, rebuilder, core_.counts);
}

}  // namespace tensorpager::pager
