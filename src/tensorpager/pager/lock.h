// The pager's lock. The fault handler takes a fault of the thread that holds it for a real one.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include "tensorpager/pager/follower.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class Mutex {
 public:
  /// `follower` is notified first, whenever the lock is taken. It must outlive this.
  explicit Mutex(Follower& follower) : follower_(follower) {}

  /// How often it was taken so far, but around forks.
  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

  /// Nothing is notified, as other threads may have stopped anywhere.
  void lock_for_fork() {
    mutex_.lock();
    t_state.in_pager = true;
  }
  void unlock_after_fork(bool in_child) {
    t_state.in_pager = false;
    if (in_child)
      ::new (&mutex_) std::mutex;
    else
      mutex_.unlock();
  }

 private:
  friend class Lock;
  /// Others hold it for accounts, seldom for system calls: less time than a sleep and a wake-up take.
  static constexpr int kSpins = 500;

  void lock() {
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return;
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
    mutex_.lock();
  }

  Follower& follower_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> taken_{0};  // changed with the lock held
};

class Lock {
 public:
  explicit Lock(Mutex& mutex) : mutex_(mutex) {
    mutex.lock();
    t_state.in_pager = true;
    mutex.taken_.store(mutex.taken() + 1, std::memory_order_relaxed);
    mutex.follower_.notify_of_end();
  }
  ~Lock() {
    t_state.in_pager = false;
    mutex_.mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace tensorpager::pager
