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
    pager.notify_of_end();
  }
  /// For a caller that holds the mutex.
  Lock(Pager& pager, std::adopt_lock_t) : pager_(pager) {
    t_state.in_pager = true;
    pager.notify_of_end();
  }
  ~Lock() {
    if (!is_held_) return;
    unlock();
    if (pager_.is_advance_due_.exchange(false)) pager_.advance();
  }
  void unlock() {
    is_held_ = false;
    t_state.in_pager = false;
    pager_.mutex_.unlock();
  }
  /// Locks again after `unlock`. Returns false if others keep the lock for long; then nothing is left to release.
  bool try_again() {
    for (int i = 0; i < kSpins && !is_held_; ++i) is_held_ = pager_.mutex_.try_lock();
    if (is_held_) t_state.in_pager = true;
    return is_held_;
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  /// A transfer thread holds it for a few mappings: less time than a sleep and a wake-up take.
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
  bool is_held_ = true;
};

}  // namespace tensorpager::pager
