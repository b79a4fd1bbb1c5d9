#include "tensorpager/fake_cuda/kernels.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "tensorpager/fake_cuda/world.h"

namespace tensorpager::fake_cuda {

void* kernel_view(const void* address) { return World::get().view(address); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers give their ranges away, and a queue may keep them.
void launch(void* stream, const char* name, std::vector<Range> touched, std::function<void()> kernel, Work work) {
  if (skips_kernels()) return;
  if (World::is_forked_child())
    throw std::logic_error(std::string(name) +
                           ": CUDA was used before this process was forked, and cannot be used in it; try spawn");
  World& world = World::get();
  for (const Range& range : touched) work.bytes += range.bytes;
  world.queues().enqueue(world.queue_of(stream), name, touched, std::move(kernel), work);
}

}  // namespace tensorpager::fake_cuda

using tensorpager::fake_cuda::World;

bool tensorpager_fake_cuda_skip(bool on) { return std::exchange(tensorpager::fake_cuda::skips_kernels(), on); }

const char* tensorpager_fake_cuda_report() {
  thread_local std::string text;
  text = World::is_forked_child() ? "{}" : World::get().report();
  return text.c_str();
}

void tensorpager_fake_cuda_fail(const char* call, unsigned long long nth) { World::get().failures().fail(call, nth); }

void tensorpager_fake_cuda_clear_error() {
  World& world = World::get();
  world.queues().wait_for_all();
  world.queues().forget_failures();
}
