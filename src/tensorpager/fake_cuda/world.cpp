#include "tensorpager/fake_cuda/world.h"

#include "tensorpager/fake_cuda/streams.h"

namespace tensorpager::fake_cuda {

World::World(const WorldOptions& options) : card_(options.card) {
  const int queues = card_.devices * kQueuesPerDevice;
  if (options.races) races_ = std::make_unique<RaceChecker>(queues);
  for (int device = 0; device < card_.devices; ++device) {
    memories_.push_back(std::make_unique<DeviceMemory>(card_.memory, Fit::kBest));
    const DeviceMemory& memory = *memories_.back();
    if (races_) races_->add_memory(memory.base(), memory.span(), "device " + std::to_string(device));
  }
  queues_ = std::make_unique<Queues>(queues, kQueuesPerDevice, options.schedule, options.delay_us, races_.get(),
                                     options.speeds);
}

int World::device_of(const void* address) const {
  for (int device = 0; device < card_.devices; ++device)
    if (memories_[static_cast<std::size_t>(device)]->holds(address)) return device;
  return -1;
}

void* World::view(const void* address) const {
  const int device = device_of(address);
  return device < 0 ? const_cast<void*>(address) : memories_[static_cast<std::size_t>(device)]->view(address);
}

int World::queue_of(void* stream) const {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return current_device() * kQueuesPerDevice;
  Stream& known = *static_cast<Stream*>(stream);
  return known.device() * kQueuesPerDevice + known.queue_of_device();
}

bool World::free(void* address) {
  const int device = device_of(address);
  if (device < 0) return false;
  queues_->wait_for_all();
  const std::size_t bytes = memory(device).bytes_at(address);
  if (races_) races_->forget(address, bytes);
  return memory(device).free(address).has_value();
}

void* World::allocate_pinned(std::size_t bytes) {
  void* at = pinned_.allocate(bytes);
  if (at && races_) races_->add_memory(at, bytes, "pinned");
  return at;
}

bool World::free_pinned(void* address) {
  queues_->wait_for_all();
  if (races_ && pinned_.starts_at(address)) races_->remove_memory(address);
  return pinned_.free(address);
}

bool World::register_pinned(void* address, std::size_t bytes) {
  if (!pinned_.add(address, bytes)) return false;
  if (races_) races_->add_memory(address, bytes, "pinned");
  return true;
}

bool World::unregister_pinned(void* address) {
  queues_->wait_for_all();
  if (!pinned_.remove(address)) return false;
  if (races_) races_->remove_memory(address);
  return true;
}

bool& skips_kernels() {
  thread_local bool skips = false;
  return skips;
}

}  // namespace tensorpager::fake_cuda
