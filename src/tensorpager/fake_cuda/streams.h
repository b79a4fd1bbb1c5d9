// What a cudaStream_t points to. Torch makes 32 streams of each priority at once and uses few, so a stream gets its
// queue when it is first used; streams beyond a device's queues share them, as on a card.
#pragma once

#include <atomic>

namespace tensorpager::fake_cuda {

class Stream {
 public:
  explicit Stream(int device, int priority) : device_(device), priority_(priority) {}
  int device() const { return device_; }
  int priority() const { return priority_; }
  /// Its queue among the device's; never 0, which is the default stream's.
  int queue_of_device() {
    int queue = queue_.load();
    if (queue > 0) return queue;
    const int drawn = draw_queue(device_);
    return queue_.compare_exchange_strong(queue, drawn) ? drawn : queue;
  }

 private:
  static int draw_queue(int device);

  int device_;
  int priority_;
  std::atomic<int> queue_{0};  // 0: not used yet
};

/// The device that this thread's calls are for, from 0.
int& current_device();

}  // namespace tensorpager::fake_cuda
