// The emulated machine: one card or several, pinned host memory, and the queues over them. A process has one, made
// from its environment at the first call that needs it and never destroyed, as threads may use it until the very end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/fake_cuda/card.h"
#include "tensorpager/fake_cuda/device_memory.h"
#include "tensorpager/fake_cuda/failure_injection.h"
#include "tensorpager/fake_cuda/pinned_memory.h"
#include "tensorpager/fake_cuda/queues.h"
#include "tensorpager/fake_cuda/race_checker.h"

namespace tensorpager::fake_cuda {

struct WorldOptions {
  Card card = {};
  std::string schedule = "now";       // as for make_schedule
  long delay_us = 100;                // under the schedule `threads`
  bool races = true;                  // whether they are looked for
  std::optional<Speeds> speeds = {};  // times are the card's
};

/// From TENSORPAGER_CARD and TENSORPAGER_EMULATE_*. Throws InvalidArgument.
WorldOptions read_options();

class World {
 public:
  static constexpr int kQueuesPerDevice = 16;

  explicit World(const WorldOptions& options);

  /// The process's World. Aborts with the error's text if the environment is wrong.
  static World& get();
  /// The process's World if it was made already; null if not.
  static World* find();
  /// Whether this process was forked off one that had its World made; CUDA cannot be used there.
  static bool is_forked_child();

  const Card& card() const { return card_; }
  DeviceMemory& memory(int device) { return *memories_[static_cast<std::size_t>(device)]; }
  PinnedMemory& pinned() { return pinned_; }
  Queues& queues() { return *queues_; }
  FailureInjection& failures() { return failures_; }
  std::atomic<std::uint64_t>& launches_refused() { return launches_refused_; }

  /// The device whose memory holds the address; -1 if none does.
  int device_of(const void* address) const;
  void* view(const void* address) const;
  /// The queue of a stream; null, 1 and 2 are default streams of the current device.
  int queue_of(void* stream) const;

  void* allocate(int device, std::size_t bytes) { return memory(device).allocate(bytes); }
  /// Waits for the device first, as a card does. Returns false if no block begins there.
  bool free(void* address);
  void* allocate_pinned(std::size_t bytes);
  bool free_pinned(void* address);
  bool register_pinned(void* address, std::size_t bytes);
  bool unregister_pinned(void* address);

  /// One JSON object; see tensorpager_fake_cuda_report.
  std::string report();

 private:
  Card card_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;  // by device
  PinnedMemory pinned_;
  FailureInjection failures_;
  std::unique_ptr<RaceChecker> races_;  // null: not looked for
  std::unique_ptr<Queues> queues_;
  std::atomic<std::uint64_t> launches_refused_{0};
};

/// Whether what this thread queues is dropped.
bool& skips_kernels();

}  // namespace tensorpager::fake_cuda
