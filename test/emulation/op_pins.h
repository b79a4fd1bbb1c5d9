// The blocks that the op of this thread pins: its arguments, and what is allocated while it runs. Ops that an op calls
// pin for the outermost one.
#pragma once

#include "pager.h"

namespace mini_pager {

class OpPins {
 public:
  explicit OpPins(Pager& pager) : pager_(pager), outermost_(!current_) {
    if (outermost_) current_ = &pinned_;
  }
  ~OpPins() {
    if (!outermost_) return;
    current_ = nullptr;
    pager_.unpin(pinned_);
  }
  OpPins(const OpPins&) = delete;
  OpPins& operator=(const OpPins&) = delete;

  /// Null outside ops.
  static Pager::Pinned* current() { return current_; }

 private:
  static inline thread_local Pager::Pinned* current_ = nullptr;

  Pager& pager_;
  bool outermost_;
  Pager::Pinned pinned_;
};

}  // namespace mini_pager
