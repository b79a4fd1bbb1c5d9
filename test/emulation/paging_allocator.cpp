#include "paging_allocator.h"

#include <c10/cuda/CUDAGuard.h>

#include "op_pins.h"

namespace mini_pager {
namespace {

constexpr std::size_t kGranule = 512;  // of torch's allocator
const c10::Device kDevice(c10::kCUDA, 0);

void free_block(void* block) { PagingAllocator::get()->pager().free(*static_cast<Block*>(block)); }
void free_nothing(void*) {}
void free_raw(void* at) { PagingAllocator::get()->raw_delete(at); }

}  // namespace

PagingAllocator* PagingAllocator::installed_ = nullptr;

PagingAllocator::PagingAllocator(std::size_t budget, CUDAAllocator& before)
    : pager_(budget, Waits::from_environment(), &free_block), before_(before) {}

void PagingAllocator::install(std::size_t budget) {
  TORCH_CHECK(!installed_, "mini pager: it is installed");
  constexpr std::uint8_t kBeforeAllOthers = 255;
  // It is never deleted: storages outlive main.
  installed_ = new PagingAllocator(budget, *caching::allocator.load());
  caching::allocator.store(installed_);
  c10::SetAllocator(c10::kCUDA, installed_, kBeforeAllOthers);
}

Block* PagingAllocator::find_block(const at::DataPtr& data) {
  return data.get_deleter() == &free_block ? static_cast<Block*>(data.get_context()) : nullptr;
}

at::DataPtr PagingAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &free_nothing, kDevice};
  Block& block = pager_.allocate((bytes + kGranule - 1) / kGranule * kGranule, OpPins::current());
  return {block.at, &block, &free_block, kDevice};
}

c10::DeleterFnPtr PagingAllocator::raw_deleter() const { return &free_raw; }

void PagingAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c10::cuda::getCurrentCUDAStream().stream()));
}

void* PagingAllocator::raw_alloc(std::size_t bytes) {
  at::DataPtr data = allocate(bytes);
  void* const at = data.get();
  const std::lock_guard lock(mutex_);
  if (at) raw_.emplace(at, std::move(data));
  return at;
}

void* PagingAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(stream, kDevice.index()));
  return raw_alloc(bytes);
}

void PagingAllocator::raw_delete(void* at) {
  std::unique_lock lock(mutex_);
  const auto freed = raw_.extract(at);
  lock.unlock();
  if (freed.empty()) before_.raw_delete(at);
}

void PagingAllocator::recordStream(const at::DataPtr& data, c10::cuda::CUDAStream stream) {
  if (Block* block = find_block(data)) {
    pager_.record_stream(*block, stream.unwrap());
  } else if (data.get_deleter() != &free_nothing) {
    before_.recordStream(data, stream);
  }
}

void* PagingAllocator::getBaseAllocation(void* at, std::size_t* bytes) {
  if (bytes) *bytes = pager_.budget();
  return at;
}

c10::CachingDeviceAllocator::DeviceStats PagingAllocator::getDeviceStats(c10::DeviceIndex) {
  const Pager::Counts counts = pager_.counts();
  c10::CachingDeviceAllocator::DeviceStats stats;
  auto& allocated = stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  allocated.current = static_cast<std::int64_t>(counts.in_use);
  allocated.peak = static_cast<std::int64_t>(counts.peak);
  auto& reserved = stats.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  reserved.current = reserved.peak = static_cast<std::int64_t>(pager_.budget());
  return stats;
}

std::pair<std::size_t, std::size_t> PagingAllocator::getMemoryInfo(c10::DeviceIndex) {
  return {pager_.budget() - pager_.counts().in_use, pager_.budget()};
}

}  // namespace mini_pager
