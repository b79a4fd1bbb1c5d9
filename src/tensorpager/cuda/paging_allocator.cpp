#include "tensorpager/cuda/paging_allocator.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "tensorpager/base/errors.h"
#include "tensorpager/memory/torch_allocator.h"
#include "tensorpager/memory/torch_storages.h"
#include "tensorpager/pager/shortage.h"

namespace tensorpager::cuda {
namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;
using base::Bytes;
using c10::DeviceIndex;
using c10::MempoolId_t;

constexpr std::uint8_t kPriority = 255;  // torch keeps the allocator set with the highest
constexpr const char* kNoGraphs =
    "Tensorpager: CUDA graphs and private memory pools keep addresses, which change under a budget; run without them "
    "(torch.compile: no mode=\"reduce-overhead\"), or without --budget";

// Deleters are plain functions, so what they need is static. Set once, by the one allocator of the process.
PagingAllocator* g_allocator = nullptr;

void free_any(void* at) { g_allocator->raw_delete(at); }
void free_nothing(void*) {}

DeviceIndex current_device() {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

}  // namespace

PagingAllocator::PagingAllocator(pager::Pager& pager, CudaStreams& streams, memory::SmallStorages& small,
                                 void (*thread_observer)())
    : pager_(pager), streams_(streams), small_(small), thread_observer_(thread_observer) {
  g_allocator = this;
  memory::free_blocks_of(pager);
}

void PagingAllocator::install(Bytes smallest_block) {
  smallest_block_ = std::min(smallest_block, base::kMinPagedBytes);
  previous_ = torch_allocator::allocator.load();
  torch_allocator::allocator.store(this);
  c10::SetAllocator(c10::kCUDA, this, kPriority);
}

void PagingAllocator::uninstall() {
  if (previous_ == nullptr) return;
  torch_allocator::allocator.store(previous_);
  c10::SetAllocator(c10::kCUDA, previous_, kPriority);
}

/// cuDNN would take another algorithm, with other bits, if it saw an out-of-memory error. The op's frame makes one of
/// it.
[[noreturn]] void PagingAllocator::fail(const char* shortage) {
  pager::note_shortage(shortage);
  TORCH_CHECK(!pager::t_state.hides_shortages, "Tensorpager: ", shortage);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "Tensorpager: ", shortage);
}

void PagingAllocator::before_products() { g_allocator->workspaces_.prepare(g_allocator->streams_.current()); }

c10::DataPtr PagingAllocator::allocate(std::size_t size) {
  const DeviceIndex device = current_device();
  if (!is_ours(device)) return previous_->allocate(size);
  thread_observer_();
  const c10::Device here(c10::kCUDA, device);
  if (size == 0) return {nullptr, nullptr, &free_nothing, here};
  try {
    if (Bytes(size) < smallest_block_) {
      void* const at = small_.allocate(Bytes(size), streams_.current());
      return {at, at, &free_any, here};
    }
    if (void* const at = workspaces_.take(Bytes(size))) return {at, at, &BlasWorkspaces::give_back, here};
    const pager::Block& block = pager_.storages().create(Bytes(size));
    return {block.data, block.data, &memory::free_block, here};
  } catch (const base::OverBudget& error) {
    for (const auto& observer : observers_)
      observer(device, size, pager_.budget().count(), getMemoryInfo(device).first);
    fail(error.what());
  } catch (const base::IoError& error) {
    fail(error.what());
  }
}

c10::DeleterFnPtr PagingAllocator::raw_deleter() const { return &free_any; }

/// Returns false if the memory is none of ours.
bool PagingAllocator::free(void* at) {
  if (small_.free(at)) return true;
  const pager::Block* const block = pager_.outside().find_around(at);
  if (block == nullptr || block->data != at) return false;
  memory::free_block(at);
  return true;
}

void* PagingAllocator::raw_alloc(std::size_t size) {
  if (size == 0) return nullptr;
  return is_ours(current_device()) ? allocate(size).release_context() : previous_->raw_alloc(size);
}

void* PagingAllocator::raw_alloc_with_stream(std::size_t size, cudaStream_t stream) {
  void* const at = raw_alloc(size);
  if (at == nullptr) return nullptr;
  const device::Queue queue = streams_.queue_of(stream);
  if (small_.note_use(at, queue)) return at;
  if (pager::Block* const block = pager_.outside().find_around(at)) pager_.ordering().note_use(*block, queue);
  return at;
}

void PagingAllocator::raw_delete(void* at) {
  if (at != nullptr && !free(at) && previous_ != nullptr) previous_->raw_delete(at);
}

void PagingAllocator::recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) {
  if (pointer.get() == nullptr && pointer.get_context() == nullptr) return;
  pager::Block* block = nullptr;
  if (pointer.get_deleter() == &memory::TorchStorages::free_claimed)
    block = static_cast<pager::Block*>(pointer.get_context());
  else if (pointer.get_deleter() == &memory::free_block)
    block = pager_.outside().find_around(pointer.get());
  else if (pointer.get_deleter() != &free_any || !small_.note_use(pointer.get(), streams_.queue_behind(stream)))
    return previous_->recordStream(pointer, stream);
  if (block != nullptr) pager_.ordering().note_use(*block, streams_.queue_behind(stream));
}

void PagingAllocator::copy_data(void* to, const void* from, std::size_t size) const {
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, c10::cuda::getCurrentCUDAStream()));
}

void PagingAllocator::emptyCache(MempoolId_t pool) { previous_->emptyCache(pool); }

/// What is charged counts as allocated; the arena is what is reserved.
c10::CachingDeviceAllocator::DeviceStats PagingAllocator::getDeviceStats(DeviceIndex device) {
  if (!is_ours(device)) return previous_->getDeviceStats(device);
  const pager::Accounts::Charges charges = pager_.accounts().charges();
  const auto signed_of = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  c10::CachingDeviceAllocator::DeviceStats stats;
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto large = static_cast<std::size_t>(c10::CachingAllocator::StatType::LARGE_POOL);
  for (const std::size_t kind : {all, large}) {
    for (auto* const stat : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*stat)[kind].current = signed_of(charges.now.count());
      (*stat)[kind].peak = signed_of(charges.recent_peak.count());
    }
    stats.reserved_bytes[kind].current = stats.reserved_bytes[kind].peak = signed_of(charges.budget.count());
    stats.segment[kind].current = stats.segment[kind].peak = 1;
    stats.allocation[kind].current = signed_of(charges.live_blocks);
  }
  return stats;
}

void PagingAllocator::resetAccumulatedStats(DeviceIndex device) {
  if (!is_ours(device)) previous_->resetAccumulatedStats(device);
}

void PagingAllocator::resetPeakStats(DeviceIndex device) {
  if (!is_ours(device)) return previous_->resetPeakStats(device);
  pager_.accounts().forget_peak();
}

std::pair<std::size_t, std::size_t> PagingAllocator::getMemoryInfo(DeviceIndex device) {
  if (!is_ours(device)) return previous_->getMemoryInfo(device);
  const std::uint64_t budget = pager_.budget().count();
  return {budget - std::min(budget, pager_.accounts().charged().count()), budget};
}

void PagingAllocator::init(int devices) {
  if (previous_ != nullptr && !previous_->initialized()) previous_->init(devices);
}

double PagingAllocator::getMemoryFraction(DeviceIndex device) {
  return is_ours(device) ? 1.0 : previous_->getMemoryFraction(device);
}

void PagingAllocator::setMemoryFraction(double fraction, DeviceIndex device) {
  if (!is_ours(device)) return previous_->setMemoryFraction(fraction, device);
  TORCH_WARN_ONCE("Tensorpager: the memory fraction of the device is ignored; --budget is its limit");
}

std::vector<torch_allocator::StreamSegmentSize> PagingAllocator::getExpandableSegmentSizes(DeviceIndex) { return {}; }

/// A constant: cuDNN chooses its algorithms by it, and they must not depend on what is resident.
void PagingAllocator::cacheInfo(DeviceIndex device, std::size_t* largest) {
  if (!is_ours(device)) return previous_->cacheInfo(device, largest);
  *largest = pager_.budget().count();
}

void* PagingAllocator::getBaseAllocation(void* at, std::size_t* size) { return previous_->getBaseAllocation(at, size); }

torch_allocator::SnapshotInfo PagingAllocator::snapshot(MempoolId_t pool, bool include_traces) {
  return previous_->snapshot(pool, include_traces);
}

void PagingAllocator::beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) {
  TORCH_CHECK(false, kNoGraphs);
}
void PagingAllocator::createOrIncrefPool(DeviceIndex, MempoolId_t, std::shared_ptr<CUDAAllocator>) {
  TORCH_CHECK(false, kNoGraphs);
}

// The destructor of a pool that was refused calls these, and must not fail.
void PagingAllocator::endAllocateToPool(DeviceIndex, MempoolId_t) {}
void PagingAllocator::releasePool(DeviceIndex, MempoolId_t) {}
int PagingAllocator::getPoolUseCount(DeviceIndex, MempoolId_t) { return 0; }
void PagingAllocator::setUseOnOOM(DeviceIndex, MempoolId_t, bool) {}
void PagingAllocator::setNoSplit(DeviceIndex, MempoolId_t) {}
bool PagingAllocator::checkPoolLiveAllocations(DeviceIndex, MempoolId_t, const std::unordered_set<void*>&) {
  return true;
}

torch_allocator::ShareableHandle PagingAllocator::shareIpcHandle(void* at) {
  TORCH_CHECK(pager_.outside().find_around(at) == nullptr,
              "Tensorpager: a CUDA tensor cannot be shared with another process under a budget, as its address "
              "changes; share a copy on the CPU");
  return previous_->shareIpcHandle(at);
}

std::shared_ptr<void> PagingAllocator::getIpcDevPtr(std::string handle) {
  return previous_->getIpcDevPtr(std::move(handle));
}

void PagingAllocator::recordHistory(bool, torch_allocator::CreateContextFn, std::size_t, torch_allocator::RecordContext,
                                    bool, const std::vector<std::string>&) {
  TORCH_WARN_ONCE("Tensorpager: no history of allocations is recorded under a budget; `tensorpager trace` has one");
}

void PagingAllocator::attachOutOfMemoryObserver(torch_allocator::OutOfMemoryObserver observer) {
  observers_.push_back(std::move(observer));
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
void PagingAllocator::attachOomRejectionObserver(torch_allocator::OomRejectionObserver observer) {
  previous_->attachOomRejectionObserver(std::move(observer));
}
#endif

void PagingAllocator::attachAllocatorTraceTracker(torch_allocator::AllocatorTraceTracker tracker) {
  previous_->attachAllocatorTraceTracker(std::move(tracker));
}

void PagingAllocator::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  previous_->enablePeerAccess(device, peer);
}

cudaError_t PagingAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                                         cudaStream_t stream, bool peers) {
  if (peers || to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}

std::shared_ptr<torch_allocator::AllocatorState> PagingAllocator::getCheckpointState(DeviceIndex, MempoolId_t) {
  TORCH_CHECK(false, kNoGraphs);
}

torch_allocator::CheckpointDelta PagingAllocator::setCheckpointPoolState(
    DeviceIndex, std::shared_ptr<torch_allocator::AllocatorState>) {
  TORCH_CHECK(false, kNoGraphs);
}

}  // namespace tensorpager::cuda
