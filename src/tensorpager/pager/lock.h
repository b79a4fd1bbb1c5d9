// The pager's lock, which also tells the fault handler that a fault of this thread is a real one. Private to pager/.
#pragma once

#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

class Pager::Lock {
 public:
  explicit Lock(Pager& pager) : pager_(pager) {
    pager_.mutex_.lock();
    t_state.in_pager = true;
  }
  ~Lock() {
    t_state.in_pager = false;
    pager_.mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Pager& pager_;
};

}  // namespace tensorpager::pager
