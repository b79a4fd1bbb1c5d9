// Pins of resident blocks, and the lives of blocks' records: a block's memory goes back when its storage dies, its
// record when the last pin is gone. Nothing here takes a lock: a pin is one atomic operation on the block's word.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensorpager/pager/block.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

class Pins {
 public:
  /// `clock`: the op index. It must outlive this.
  explicit Pins(const std::atomic<std::uint64_t>& clock) : clock_(clock) {}

  /// Pins the block for the calling thread's op. Returns false if it is absent, or clean and to be written.
  bool pin_if_ready(Block& block, Access access) {
    const std::uint64_t blocked = kAbsent | (access == Access::kWrite ? kClean : 0);
    std::uint64_t word = block.word.load(std::memory_order_relaxed);
    do {
      if ((word & blocked) != 0) return false;
    } while (!block.word.compare_exchange_weak(word, word + kPin, std::memory_order_acquire));
    if ((word & (kPinMask | kExportMask)) == 0) t_state.pinned += block.charged.count();  // exports count apart
    block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return true;
  }
  void unpin(Block& block) {
    const std::uint64_t bytes = block.charged.count();  // before it is unpinned: another thread may destroy it then
    const std::uint64_t word = block.word.fetch_sub(kPin, std::memory_order_acq_rel);
    if ((word & kPinMask) != kPin) return;
    if ((word & kDead) != 0) [[unlikely]] {
      if ((word & kExportMask) == 0) forget(block);
    } else if ((word & kExportMask) == 0) {
      t_state.pinned -= bytes;
    }
  }

  /// Records that were made and not forgotten.
  std::uint64_t records() const { return records_; }
  void note_record() { records_.fetch_add(1, std::memory_order_relaxed); }
  /// The block's storage died. The release of the last pin deletes the record.
  void end_record(Block& block) noexcept {
    const std::uint64_t bytes = block.charged.count();  // before it is dead: the thread that pinned it may forget it
    const std::uint64_t last = block.word.fetch_or(kDead, std::memory_order_acq_rel);
    if ((last & kPinMask) != 0)
      t_state.pinned -= bytes;
    else if ((last & kExportMask) == 0)
      forget(block);
  }
  /// Deletes the record of a dead block without pins.
  void forget(Block& block) noexcept {
    records_.fetch_sub(1, std::memory_order_relaxed);
    delete &block;
  }

 private:
  const std::atomic<std::uint64_t>& clock_;
  std::atomic<std::uint64_t> records_{0};
};

}  // namespace tensorpager::pager
