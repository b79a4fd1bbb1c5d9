// The floor that a program was seen to have: the most bytes that one op required at once, with what could not be
// evicted then. And what cannot be evicted at any time: slabs and exports.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tensorpager/arena/ledger.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class Floor {
 public:
  /// It must outlive this.
  explicit Floor(const arena::Ledger& ledger) : ledger_(ledger) {}

  base::Bytes bytes() const { return base::Bytes(floor_.load(std::memory_order_relaxed)); }
  /// A session begins, or a request is refused, which counts for nothing.
  void set(base::Bytes bytes) { floor_.store(bytes.count(), std::memory_order_relaxed); }
  /// So much was required at once.
  void note(base::Bytes bytes) {
    if (bytes > this->bytes()) [[unlikely]]
      set(bytes);
  }
  /// The op that runs on the calling thread has pinned what it needs. Takes no lock.
  void note_working_set() {
    const std::uint64_t pinned = t_state.pinned > 0 ? static_cast<std::uint64_t>(t_state.pinned) : 0;
    note(base::Bytes(pinned + unevictable_.load(std::memory_order_relaxed)));
  }

  // --- with the lock held
  base::Bytes exports() const { return exports_; }
  void add_export(base::Bytes bytes) {
    exports_ += bytes;
    note_unevictable();
  }
  void remove_export(base::Bytes bytes) {
    exports_ -= bytes;
    note_unevictable();
  }
  /// Slabs or exports have changed.
  void note_unevictable() { unevictable_ = (ledger_.slabs() + exports_).count(); }

 private:
  const arena::Ledger& ledger_;
  base::Bytes exports_;
  std::atomic<std::uint64_t> floor_{0};        // bytes
  std::atomic<std::uint64_t> unevictable_{0};  // bytes
};

}  // namespace tensorpager::pager
