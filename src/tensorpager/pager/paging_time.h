// Measures time that a thread spends on paging, which is not part of the recorded ops' times. What is measured within
// another measurement, as in a replay, is a part of that one. Private to pager/.
#pragma once

#include <atomic>
#include <chrono>

#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class PagingTime {
 public:
  /// `sum`: nanoseconds of all threads; null if the time is not paging, though not part of an op either.
  PagingTime(bool counts, std::atomic<std::int64_t>* sum) : counts_(counts && !t_state.times_paging), sum_(sum) {
    if (!counts_) return;
    t_state.times_paging = true;
    begin_ = std::chrono::steady_clock::now();
  }
  ~PagingTime() {
    if (!counts_) return;
    t_state.times_paging = false;
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin_;
    t_state.paging += took;
    if (sum_ != nullptr) sum_->fetch_add(took.count(), std::memory_order_relaxed);
  }
  PagingTime(const PagingTime&) = delete;
  PagingTime& operator=(const PagingTime&) = delete;

 private:
  bool counts_;
  std::atomic<std::int64_t>* sum_;
  std::chrono::steady_clock::time_point begin_ = {};
};

}  // namespace tensorpager::pager
