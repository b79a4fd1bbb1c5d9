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
  ~PagingTime() { end(); }
  PagingTime(const PagingTime&) = delete;
  PagingTime& operator=(const PagingTime&) = delete;

  /// What comes now is the op's own.
  void end() {
    if (counts_) t_state.paging += std::chrono::steady_clock::now() - begin_;
    counts_ = false;
  }

 private:
  bool counts_;
  std::chrono::steady_clock::time_point begin_ = {};
};

}  // namespace tensorpager::pager
