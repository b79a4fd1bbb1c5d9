#include "tensorpager/fake_cuda/streams.h"

#include "tensorpager/fake_cuda/card.h"
#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::fake_cuda {

int Stream::draw_queue(int device) {
  static std::atomic<int> drawn[Card::kMostDevices];
  return 1 + drawn[device]++ % (World::kQueuesPerDevice - 1);
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace tensorpager::fake_cuda
