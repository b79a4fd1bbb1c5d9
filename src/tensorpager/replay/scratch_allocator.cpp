#include "tensorpager/replay/scratch_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace tensorpager::replay {
namespace {

constexpr std::uint8_t kPriority = 255;  // torch keeps the allocator set with the highest
constexpr std::size_t kAlignment = 64;   // torch's own
constexpr int kOff = -1;

constinit thread_local int t_fill = kOff;

// Deleters are plain functions, so what they need is static. Set by the one allocator of the process.
const arena::AddressSpace* g_space = nullptr;
c10::DeleterFnPtr g_next_deleter = nullptr;

void free_scratch(void* data) { std::free(data); }
void free_any(void* data) {
  if (data != nullptr && !g_space->contains(data))
    free_scratch(data);
  else
    g_next_deleter(data);
}

}  // namespace

ScratchScope::ScratchScope(std::byte fill) : before_(std::exchange(t_fill, std::to_integer<int>(fill))) {}
ScratchScope::~ScratchScope() { t_fill = before_; }

ScratchAllocator::ScratchAllocator(const arena::AddressSpace& space) { g_space = &space; }

void ScratchAllocator::install() {
  next_ = c10::GetCPUAllocator();
  g_next_deleter = next_->raw_deleter();
  c10::SetCPUAllocator(this, kPriority);
}

void ScratchAllocator::uninstall() { c10::SetCPUAllocator(next_, kPriority); }

c10::DataPtr ScratchAllocator::allocate(std::size_t size) {
  if (t_fill == kOff) return next_->allocate(size);
  if (size == 0) return {nullptr, nullptr, &free_scratch, at::kCPU};
  void* data = nullptr;
  TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&data, kAlignment, size) == 0, "Tensorpager: no memory for ", size,
                   " bytes of a replay that is compared (--verify-replay)");
  std::memset(data, t_fill, size);
  return {data, data, &free_scratch, at::kCPU};
}

bool ScratchAllocator::is_simple_data_ptr(const c10::DataPtr& pointer) const {
  return pointer.get_deleter() == &free_scratch || next_->is_simple_data_ptr(pointer);
}

c10::DeleterFnPtr ScratchAllocator::raw_deleter() const { return &free_any; }

void ScratchAllocator::copy_data(void* to, const void* from, std::size_t size) const { std::memcpy(to, from, size); }

}  // namespace tensorpager::replay
