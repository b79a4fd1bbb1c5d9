// The switch of the emulated card by which a thread's kernels are dropped instead of queued.
#pragma once

#include <string>

namespace tensorpager::dry {

/// While it lives, what this thread queues on the card is dropped. Throws if the card is not an emulated one.
class DroppedKernels {
 public:
  explicit DroppedKernels(const std::string& op);
  ~DroppedKernels();
  DroppedKernels(const DroppedKernels&) = delete;
  DroppedKernels& operator=(const DroppedKernels&) = delete;

 private:
  bool before_;
};

}  // namespace tensorpager::dry
