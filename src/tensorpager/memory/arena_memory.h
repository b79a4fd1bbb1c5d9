// The memory of an arena that blocks share: a host's or a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/arena/placement.h"
#include "tensorpager/base/config.h"
#include "tensorpager/device/stream_timeline.h"

namespace tensorpager::memory {

class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;

  virtual base::Bytes granule() const = 0;  // of places
  virtual base::Bytes most() const = 0;     // the arena's size, whatever the budget
  /// Makes the place accessible, and returns its address. Throws IoError if the machine has no memory.
  virtual std::byte* open(const arena::Place& place) = 0;
  /// Nothing is in the place any more that was opened at this address.
  virtual void close(std::byte* at) noexcept = 0;
  /// The ranges may overlap.
  virtual void move(std::byte* to, const std::byte* from, base::Bytes bytes) = 0;

  /// For the fuzzer, where the memory can be protected and filled by the host.
  virtual bool can_be_poisoned() const = 0;
  virtual void poison(std::byte* at, base::Bytes bytes) = 0;
  enum class Protection : std::uint8_t { kReadOnly, kWritable };
  virtual void protect(std::byte* at, base::Bytes bytes, Protection protection) = 0;
  virtual std::uint64_t system_calls() const = 0;

  /// The device's queues; null for the host's memory.
  virtual device::ComputeQueues* compute_queues() = 0;
};

/// Addresses of the space, twice as many as the machine has RAM, of which as many are accessible as were needed.
class HostArena final : public ArenaMemory {
 public:
  /// `space` must outlive this. Throws IoError if the addresses cannot be had.
  explicit HostArena(arena::AddressSpace& space);

  base::Bytes granule() const override { return base::kPage; }
  base::Bytes most() const override { return range_; }
  std::byte* open(const arena::Place& place) override;
  void close(std::byte*) noexcept override {}
  void move(std::byte* to, const std::byte* from, base::Bytes bytes) override;
  bool can_be_poisoned() const override { return true; }
  void poison(std::byte* at, base::Bytes bytes) override;
  void protect(std::byte* at, base::Bytes bytes, Protection protection) override;
  std::uint64_t system_calls() const override { return system_calls_; }
  device::ComputeQueues* compute_queues() override { return nullptr; }

 private:
  base::Bytes range_;  // addresses that we hold
  std::byte* base_;
  std::vector<bool> is_open_;  // accessible, in steps of so many bytes from base_
  std::uint64_t system_calls_ = 0;
};

/// One allocation of a device. Once the budget is lifted, what does not fit into it gets allocations of its own.
class DeviceArena final : public ArenaMemory {
 public:
  static constexpr base::Bytes kGranule = base::granule_of(base::Device::kCuda);

  /// `streams` and `timeline` must outlive this. Throws IoError if the device has no room for `size` bytes.
  DeviceArena(device::Streams& streams, device::StreamTimeline& timeline, base::Bytes size);

  std::byte* begin() const { return base_; }
  base::Bytes size() const { return size_; }

  base::Bytes granule() const override { return kGranule; }
  base::Bytes most() const override { return base::kUnlimited; }
  std::byte* open(const arena::Place& place) override;
  void close(std::byte* at) noexcept override;
  void move(std::byte* to, const std::byte* from, base::Bytes bytes) override;
  bool can_be_poisoned() const override { return false; }
  void poison(std::byte*, base::Bytes) override {}
  void protect(std::byte*, base::Bytes, Protection) override {}
  std::uint64_t system_calls() const override { return 0; }
  device::ComputeQueues* compute_queues() override { return &timeline_; }

 private:
  bool contains(const std::byte* at) const { return at >= base_ && at < base_ + size_.count(); }

  device::Streams& streams_;
  device::StreamTimeline& timeline_;
  const base::Bytes size_;
  std::byte* const base_;
};

}  // namespace tensorpager::memory
