// The move of a block's pages to another place: the system calls that remain of an unbind or a bind once the
// bookkeeping is done. They take long, and no other thread should wait for them with the pager's lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "tensorpager/arena/page_pool.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/page_mover.h"

namespace tensorpager::pager {

/// Returned by a binding's `begin_unbind` and `begin_bind`. Empty if no page changes its place.
struct Relocation {
  enum class Way : std::uint8_t { kOut, kIn };

  Way way;
  std::vector<arena::Piece> from = {};  // of a block on the way out they lie side by side
  std::byte* to = nullptr;              // where they lie side by side afterwards; null: they go back to the machine
  Access access = Access::kWrite;       // on the way in
  PageMover* mover = nullptr;           // null if it is empty

  base::Bytes bytes() const {
    base::Bytes sum;
    for (const arena::Piece& piece : from) sum += piece.bytes;
    return sum;
  }
  std::vector<arena::Piece> there() const { return {{to, bytes()}}; }
  /// See PageMover.
  void carry_out() const {
    if (mover != nullptr) mover->relocate(*this);
  }
  void end() const noexcept {
    if (mover != nullptr) mover->end_relocation(*this);
  }
  void cancel() const noexcept {
    if (mover != nullptr) mover->cancel_relocation(*this);
  }
};

/// A relocation that has begun. The block is absent for all threads until its end.
struct Relocating {
  explicit Relocating(Relocation relocation) : pages(std::move(relocation)) {}

  const Relocation pages;
  std::exception_ptr error;  // set if it failed: then nothing has changed
  double seconds = 0;        // that it took
  bool is_beside = false;    // done by a transfer thread, without the lock
  std::atomic<bool> is_over{false};

  bool is_moved() const { return is_over.load(std::memory_order_acquire) && !error; }
};

}  // namespace tensorpager::pager
