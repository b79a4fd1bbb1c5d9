// Time that a thread spends on paging, where ops are recorded: it is none of theirs. Private to pager/.
#pragma once

#include <chrono>

#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class PagingTime {
 public:
  explicit PagingTime(bool counts) : counts_(counts) {
    if (counts_) begin_ = std::chrono::steady_clock::now();
  }
  ~PagingTime() {
    if (counts_) t_state.paging += std::chrono::steady_clock::now() - begin_;
  }
  PagingTime(const PagingTime&) = delete;
  PagingTime& operator=(const PagingTime&) = delete;

 private:
  const bool counts_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace tensorpager::pager
