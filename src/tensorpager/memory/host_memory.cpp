#include "tensorpager/memory/host_memory.h"

#include <cstdlib>
#include <string>

#include "tensorpager/memory/rebinding_binding.h"
#include "tensorpager/memory/stable_binding.h"
#include "tensorpager/pager/lru_policy.h"

namespace tensorpager::memory {
namespace {

std::unique_ptr<pager::Binding> make_binding(const base::Config& config, arena::AddressSpace& space,
                                             TorchStorages& storages) {
  using Pages = StableBinding::Pages;
  if (config.binding == base::BindingKind::kRebinding) return std::make_unique<RebindingBinding>(space, storages);
  return std::make_unique<StableBinding>(space, config.dry ? Pages::kUntouched : Pages::kPopulated);
}

}  // namespace

HostMemory::HostMemory(const base::Config& config, void (*thread_observer)())
    : binding_(make_binding(config, space_, storages_)),
      pager_(space_, *binding_, std::make_unique<pager::LruPolicy>()),
      slabs_([this] { return pager_.storages().acquire_slab_chunk(arena::Slabs::kChunk); }),
      allocator_(pager_, slabs_, thread_observer) {}

std::unique_ptr<transfer::Queues> HostMemory::make_queues(const base::Config& config, base::Bytes) {
  const std::string directory = config.spill.empty() ? base::default_spill_directory(&std::getenv) : config.spill;
  auto tier = config.spill == "ram" ? transfer::make_ram_tier() : transfer::make_file_tier(directory);
  return transfer::make_threaded_queues(std::move(tier), config.link);
}

void HostMemory::install(const base::Config& config) {
  allocator_.set_smallest_block(config.trace_smallest);
  allocator_.install();
}

}  // namespace tensorpager::memory
