// Storages below the smallest paged size (R3): pieces of chunks that are charged whole and never evicted. A piece stays
// with the queue that it was allocated for, in which the next one to get it comes behind all work on it; if other
// queues used it, too, that queue is ordered behind them first.
//
// What is where is kept on the host's side, as the host cannot write to the memory.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensorpager/arena/slabs.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/device/compute_queues.h"

namespace tensorpager::memory {

class SmallStorages {
 public:
  static constexpr base::Bytes kChunk = arena::Slabs::kChunk;

  /// `take_chunk` gives kChunk bytes, and may throw. `order` lets a queue's next work come behind all that others were
  /// given.
  SmallStorages(std::function<std::byte*()> take_chunk, std::function<void(device::Queue, device::QueueSet)> order)
      : take_chunk_(std::move(take_chunk)), order_(std::move(order)) {}

  /// `size` from 1 byte to below kMinPagedBytes; aligned to 512 bytes. Throws what `take_chunk` throws.
  std::byte* allocate(base::Bytes size, device::Queue queue);
  /// Returns false if it is none of these.
  bool free(const void* at);
  /// Work in this queue uses it, too. Returns false if it is none of these.
  bool note_use(const void* at, device::Queue queue);

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void reset_lock_in_child();

 private:
  /// In granules of 512 bytes.
  static constexpr std::array<std::uint8_t, 10> kSizes = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

  struct Piece {
    std::uint8_t size_class;
    device::Queue queue;
    device::QueueSet others;
  };
  using Free = std::array<std::vector<std::byte*>, kSizes.size()>;

  std::function<std::byte*()> take_chunk_;
  std::function<void(device::Queue, device::QueueSet)> order_;
  std::mutex mutex_;
  std::unordered_map<const void*, Piece> pieces_;  // in use
  std::array<Free, device::kQueues> free_;         // by queue
};

}  // namespace tensorpager::memory
