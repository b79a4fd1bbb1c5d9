// Finds accesses of two queues to the same bytes, at least one of them a write, with no wait between them. It looks at
// what was queued, not at when it ran, so it finds a missing wait under every schedule.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tensorpager/fake_cuda/kernels.h"
#include "tensorpager/fake_cuda/shadow.h"
#include "tensorpager/fake_cuda/ticket.h"

namespace tensorpager::fake_cuda {

class RaceChecker {
 public:
  explicit RaceChecker(int queues) : queues_(queues) {}

  /// `what` is for messages: "device 0" or "pinned". Bytes of no known memory are not checked.
  void add_memory(const void* base, std::size_t bytes, const std::string& what);
  void remove_memory(const void* base);
  /// Notes that the bytes are freed or new, and the device was waited for.
  void forget(const void* from, std::size_t bytes);

  /// Notes that a task that touches `touched` was queued at `position`; `clock` says what happened before it.
  void check(int queue, const char* name, std::uint64_t position, const Clock& clock,
             const std::vector<Range>& touched);
  std::uint64_t races() const;
  /// The first race in words; empty if there was none.
  std::string first_race() const;

 private:
  struct Memory {
    std::string what;
    Shadow shadow;
  };
  /// A queue and what it did, if that is not ordered before the access. -1: no race.
  struct Conflict {
    int queue = -1;
    const char* did = "";
  };

  Memory* find(const void* address);
  Conflict touch(Shadow::Row row, int queue, std::uint64_t position, const Clock& clock, bool written) const;

  int queues_;
  mutable std::mutex mutex_;
  std::map<const void*, Memory> memories_;  // by base
  std::uint64_t races_ = 0;
  std::string first_race_;
};

}  // namespace tensorpager::fake_cuda
