// What is due when an op begins, and from which op on, so that an op for which nothing is due asks one number.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace tensorpager::pager {

class BoundaryWork {
 public:
  /// Without the lock.
  bool is_due(std::uint64_t op) const { return op >= due_at_.load(std::memory_order_relaxed); }

  // --- with the pager's lock held
  /// `take_task` returns it once, from op `at` on. It replaces the task before; null: none.
  void set_task(std::function<void()> task, std::uint64_t at) {
    task_ = std::move(task), task_at_ = at;
    note_due();
  }
  /// Returns null if none is due.
  std::function<void()> take_task(std::uint64_t op) {
    if (op < task_at_) return nullptr;
    std::function<void()> task = std::exchange(task_, nullptr);
    note_due();
    return task;
  }
  /// Whether there is work at each op besides.
  void set_work_at_each_op(bool is_any) {
    is_any_each_op_ = is_any;
    note_due();
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void note_due() { due_at_ = is_any_each_op_ ? 0 : task_ ? task_at_ : kNever; }

  std::function<void()> task_;
  std::uint64_t task_at_ = 0;  // op index
  bool is_any_each_op_ = false;
  std::atomic<std::uint64_t> due_at_{kNever};  // op index
};

}  // namespace tensorpager::pager
