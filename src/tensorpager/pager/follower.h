// Whose ops an action source is notified of, and the end of an op of which it was not notified yet: an op that ends
// takes no lock for that.
#pragma once

#include <atomic>

#include "tensorpager/pager/device_order.h"
#include "tensorpager/pager/executor.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class Follower {
 public:
  /// Both must outlive this.
  Follower(Executor& executor, const DeviceOrder& order) : executor_(executor), order_(order) {}

  /// Whether there is an action source. Takes no lock.
  bool is_active() const { return is_active_.load(std::memory_order_relaxed); }
  /// An op of this thread, which the source expected, has ended. Takes no lock.
  void note_end() { ended_.store(&t_state, std::memory_order_release); }

  // --- with the lock held
  /// The calling thread's ops are reported to this source; null: nobody's are to any.
  void follow(ActionSource* source) {
    executor_.follow(source);
    thread_ = source != nullptr ? &t_state : nullptr;
    is_active_.store(source != nullptr, std::memory_order_relaxed);
  }
  /// Notifies the source of an end that it was not notified of yet.
  void notify_of_end() noexcept {
    if (ended_.load(std::memory_order_relaxed) == nullptr) return;
    const ThreadState* const thread = ended_.exchange(nullptr, std::memory_order_acquire);
    if (executor_.source() != nullptr && (is_on_device() || thread == thread_)) executor_.end_op();
  }
  /// Whether the source is notified of what the calling thread does.
  bool is_told_to_source() const {
    const bool is_of_program = is_on_device() || thread_ == &t_state;
    return executor_.source() != nullptr && is_of_program && !t_state.is_collectives &&
           t_state.replaying != Replaying::kOnDemand;
  }
  /// In a forked child, whose other threads are gone.
  void forget() {
    follow(nullptr);
    ended_ = nullptr;
  }

 private:
  bool is_on_device() const { return order_.is_on_device(); }

  Executor& executor_;
  const DeviceOrder& order_;
  // On a device the ops of all threads are reported: backward passes run on a thread of their own, while the program's
  // waits.
  const ThreadState* thread_ = nullptr;
  std::atomic<bool> is_active_{false};
  std::atomic<const ThreadState*> ended_{nullptr};  // the thread of that op
};

}  // namespace tensorpager::pager
