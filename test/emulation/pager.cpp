#include "pager.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace mini_pager {
namespace {

c10::Stream current_stream() { return c10::cuda::getCurrentCUDAStream().unwrap(); }

void submit_copy(void* to, const void* from, std::size_t bytes, c10::Stream stream) {
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c10::cuda::CUDAStream(stream).stream()));
}

char* take_device_memory(std::size_t bytes) {
  void* base = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&base, bytes));
  return static_cast<char*>(base);
}

}  // namespace

Pager::Pager(std::size_t budget, Waits waits, c10::DeleterFnPtr deleter)
    : budget_(budget),
      waits_(waits),
      deleter_(deleter),
      page_out_stream_(c10::cuda::getStreamFromPool().unwrap()),
      page_in_stream_(c10::cuda::getStreamFromPool().unwrap()),
      free_(waits) {
  free_.add(take_device_memory(budget), budget, {});
}

Block& Pager::allocate(std::size_t bytes, Pinned* pinned) {
  const std::lock_guard lock(mutex_);
  auto block = std::make_shared<Block>(bytes, current_stream());
  block->at = take_range(bytes, block->home);
  block->last_use = ++clock_;
  if (pinned) {
    ++block->pins;
    pinned->push_back(block);
  }
  blocks_.emplace(block.get(), block);
  return *block;
}

void Pager::use(Block& block, c10::StorageImpl& storage, bool writes, Pinned& pinned) {
  const std::lock_guard lock(mutex_);
  const c10::Stream stream = current_stream();
  block.storage = &storage;
  block.last_use = ++clock_;
  ++block.pins;
  pinned.push_back(blocks_.at(&block));
  if (!block.at) page_in(block);
  if (waits_.keeps(Wait::kPageInBeforeCompute)) block.paged_in.block(stream);
  if (!waits_.keeps(Wait::kPageInBeforeEachStream)) block.paged_in = {};
  if (stream == block.home || waits_.keeps(Wait::kUsesOnOtherStreams)) block.add_user(stream);
  if (writes && waits_.keeps(Wait::kDirtyAfterWrite)) block.dirty = true;
}

void Pager::unpin(const Pinned& pinned) {
  const std::lock_guard lock(mutex_);
  for (const auto& block : pinned) --block->pins;
}

void Pager::record_stream(Block& block, c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  if (waits_.keeps(Wait::kUsesOnOtherStreams)) block.add_user(stream);
}

void Pager::free(Block& block) {
  const std::lock_guard lock(mutex_);
  if (block.at) release_range(block, fence_of_users(block));
  block.storage = nullptr;
  // The host buffer is used again when the copies that are queued have been made.
  for (const c10::Stream stream : {page_out_stream_, page_in_stream_})
    if (block.host) at::getHostAllocator(c10::kCUDA)->record_event(block.host.get(), block.host.get_context(), stream);
  blocks_.erase(&block);
}

char* Pager::take_range(std::size_t bytes, c10::Stream for_stream) {
  for (;;) {
    if (const auto range = free_.take(bytes)) {
      if (waits_.keeps(Wait::kReuse)) range->fence.block(for_stream);
      counts_.in_use += bytes;
      counts_.peak = std::max(counts_.peak, counts_.in_use);
      return range->at;
    }
    Block* const victim = least_recently_used();
    TORCH_CHECK_WITH(OutOfMemoryError, victim, "mini pager: ", bytes, " bytes do not fit beside ", counts_.in_use,
                     " in use of ", budget_, "; try a larger budget");
    page_out(*victim);
  }
}

Block* Pager::least_recently_used() const {
  Block* oldest = nullptr;
  for (const auto& [block, held] : blocks_)
    if (block->at && block->storage && block->pins == 0 && (!oldest || block->last_use < oldest->last_use))
      oldest = block;
  return oldest;
}

void Pager::page_out(Block& block) {
  Fence free_after = fence_of_users(block);
  if (block.dirty) {
    if (!block.host) block.host = at::getHostAllocator(c10::kCUDA)->allocate(block.bytes);
    if (waits_.keeps(Wait::kComputeBeforePageOut)) free_after.block(page_out_stream_);
    submit_copy(block.host.get(), block.at, block.bytes, page_out_stream_);
    block.paged_out = {};
    block.paged_out.record(page_out_stream_);
    if (waits_.keeps(Wait::kPageOutBeforeReuse)) free_after.merge(block.paged_out);
    block.dirty = false;
    ++counts_.page_outs;
  }
  release_range(block, std::move(free_after));
  set_address(block, nullptr);
}

void Pager::page_in(Block& block) {
  char* const at = take_range(block.bytes, page_in_stream_);
  if (waits_.keeps(Wait::kPageOutBeforePageIn)) block.paged_out.block(page_in_stream_);
  submit_copy(at, block.host.get(), block.bytes, page_in_stream_);
  block.paged_in = {};
  block.paged_in.record(page_in_stream_);
  ++counts_.page_ins;
  set_address(block, at);
}

Fence Pager::fence_of_users(const Block& block) const {
  Fence fence = block.paged_in;
  for (const auto& [id, stream] : block.users)
    fence.record(waits_.keeps(Wait::kFenceOnStreamOfUse) ? stream : current_stream());
  return fence;
}

void Pager::release_range(Block& block, Fence fence) {
  free_.add(std::exchange(block.at, nullptr), block.bytes, std::move(fence));
  counts_.in_use -= block.bytes;
  block.users.clear();
}

void Pager::set_address(Block& block, char* at) {
  block.at = at;
  at::DataPtr& held = block.storage->_mutable_data_ptr_no_checks();
  const c10::Device device = held.device();
  held.release_context();  // the block lives on
  held = at::DataPtr(at, &block, deleter_, device);
}

Pager::Counts Pager::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Pager::reset_peak() {
  const std::lock_guard lock(mutex_);
  counts_.peak = counts_.in_use;
}

}  // namespace mini_pager
