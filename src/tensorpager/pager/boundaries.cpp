// Work at op boundaries: a task of the guide's, the witness, the fuzzer.
#include <algorithm>
#include <exception>
#include <utility>

#include "tensorpager/arena/witness.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/paging_time.h"

namespace tensorpager::pager {

void Pager::note_boundary_work() {
  boundary_work_at_ = fuzz_.has_value() || witness_ops_ != 0 ? 0 : task_ ? task_at_ : kNever;
}

void Pager::call_at_boundary(std::function<void()> task, std::uint64_t after_ops) {
  const Lock lock(*this);
  task_ = std::move(task);
  task_at_ = clock_.load(std::memory_order_relaxed) + after_ops;
  note_boundary_work();
}

void Pager::run_task(std::uint64_t now) {
  std::function<void()> task;
  {
    const Lock lock(*this);
    if (now < task_at_) return;
    task = std::exchange(task_, nullptr);
    note_boundary_work();
  }
  if (task) task();
}

void Pager::do_boundary_work(std::uint64_t now) {
  const PagingTime paging(t_state.top == nullptr && sink() != nullptr, nullptr);
  if (t_state.top == nullptr) run_task(now);
  if (witness_ops_ != 0 && now % witness_ops_ == 0) {
    const Lock lock(*this);  // else pages that another thread moves meanwhile could be counted twice
    transfers_.await_relocations();
    const std::uint64_t resident = arena::resident_size(space_.begin(), space_.end()).count();
    counts_.witness_peak_bytes = std::max(counts_.witness_peak_bytes, resident);
  }
  const Lock lock(*this);
  if (!fuzz_) return;
  try {
    for (std::uint64_t i = 0; i < fuzz_evictions_ && table_.residents() > 0; ++i)
      counts_.fuzz_page_outs += transfers_.page_out(any_resident()) ? 1 : 0;
    constexpr std::uint64_t kOpsOfTransfers = 4;  // so that fuzzing takes little longer
    if (now % kOpsOfTransfers == 0) leave_transfers_under_way();
  } catch (const std::exception&) {
    ++counts_.failed_actions;  // the op did not ask for it
  }
}

/// The fuzzer's choice.
Block& Pager::any_resident() { return table_.resident((*fuzz_)() % table_.residents()); }

/// For the fuzzer: begins a page-out and a page-in that nobody waits for.
void Pager::leave_transfers_under_way() {
  if (table_.residents() > 0) transfers_.begin_page_out(any_resident());
  if (table_.absent().empty()) return;
  Block& block = *table_.absent()[(*fuzz_)() % table_.absent().size()];
  if (block.is_arriving() || !ledger_.fits(block.charged)) return;
  if (const auto place = executor_.find_free_place({.bytes = block.charged}))
    transfers_.begin_page_in(block, *place, Access::kRead);
}

}  // namespace tensorpager::pager
