// Storages on an accelerator, if a session records that device's and not the host's: known by their addresses, which
// the watch of the device's allocator reports (cuda/). Nothing here pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "tensorpager/base/event_sink.h"

namespace tensorpager::intercept {

class DeviceStorages {
 public:
  struct Found {
    std::uint64_t number;
    base::Bytes size, charged;
  };

  explicit DeviceStorages(base::Bytes granule) : granule_(granule) {}

  /// The sink of births, deaths and ops from now on; null if nothing is recorded. It must outlive the calls in
  /// progress.
  void set_sink(base::EventSink* sink) { sink_.store(sink, std::memory_order_release); }
  base::EventSink* sink() const { return sink_.load(std::memory_order_acquire); }

  /// Reports an allocation by the op that this thread runs. May be called with the allocator's lock held.
  void born(const void* at, base::Bytes size);
  void died(const void* at);
  /// The storage that contains this address.
  std::optional<Found> find(const void* address) const;

 private:
  /// Above all numbers of the host's blocks, so that none is taken for the other.
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 62;
  struct Storage {
    std::uint64_t number;
    base::Bytes size;
  };

  const base::Bytes granule_;
  std::atomic<base::EventSink*> sink_{nullptr};
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Storage> storages_;  // by address
  std::uint64_t births_ = kFirst;
};

}  // namespace tensorpager::intercept
