#include "tensorpager/intercept/device_storages.h"

#include "tensorpager/pager/thread_state.h"

namespace tensorpager::intercept {

void DeviceStorages::born(const void* at, base::Bytes size) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++births_;
    storages_[reinterpret_cast<std::uintptr_t>(at)] = {number, size};
  }
  if (base::EventSink* const told = sink())
    told->block_born(pager::t_state.recorded_op, {number, size, base::round_up(size, granule_)});
}

void DeviceStorages::died(const void* at) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = storages_.find(reinterpret_cast<std::uintptr_t>(at));
    if (found == storages_.end()) return;  // made before recording began
    number = found->second.number;
    storages_.erase(found);
  }
  if (base::EventSink* const told = sink()) told->block_died(pager::t_state.recorded_op, number);
}

std::optional<DeviceStorages::Found> DeviceStorages::find(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto found = storages_.upper_bound(at);
  if (found == storages_.begin()) return std::nullopt;
  --found;
  if (at - found->first >= found->second.size.count()) return std::nullopt;
  const Storage& storage = found->second;
  return Found{.number = storage.number, .size = storage.size, .charged = base::round_up(storage.size, granule_)};
}

}  // namespace tensorpager::intercept
