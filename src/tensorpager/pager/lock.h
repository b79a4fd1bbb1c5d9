// The pager's lock. The fault handler takes a fault of the thread that holds it for a real one. Private to pager/.
#pragma once

#include <mutex>

#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

class Pager::Lock {
 public:
  explicit Lock(Pager& pager) : pager_(pager) {
    lock();
    t_state.in_pager = true;
    pager.locks_taken_.store(pager.locks_taken() + 1, std::memory_order_relaxed);
    pager.notify_of_end();
  }
  ~Lock() {
    t_state.in_pager = false;
    pager_.mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  /// Others hold it for accounts, seldom for system calls: less time than a sleep and a wake-up take.
  static constexpr int kSpins = 500;

  void lock() {
    for (int i = 0; i < kSpins; ++i) {
      if (pager_.mutex_.try_lock()) return;
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
    pager_.mutex_.lock();
  }

  Pager& pager_;
};

}  // namespace tensorpager::pager
