// What a transfer thread does after each transfer while a plan is followed: work that waits for the transfer continues
// at once, not when the next op begins, and ops need not map pages for it.
#include <algorithm>
#include <exception>
#include <mutex>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

/// An op that holds the lock may be waiting for this very thread, or be about to do the same work. It does the work
/// when it releases the lock: the flag is set before the last try, and read after each release.
void Pager::advance() noexcept {
  constexpr int kTries = 100;
  if (!is_followed()) return;
  bool is_mine = false;
  for (int i = 0; i < kTries && !is_mine; ++i) is_mine = mutex_.try_lock();
  if (!is_mine) {
    is_advance_due_.exchange(true);
    if (!mutex_.try_lock()) return;
  }
  Lock lock(*this, std::adopt_lock);
  if (executor_.source() == nullptr) return;
  finish_page_outs_ahead();
  executor_.submit_page_ins();
  if (finish_page_ins_ahead(lock)) note_curve();
}

/// Finishes the page-outs whose copies are done. The plan counts them until it awaits them.
void Pager::finish_page_outs_ahead() {
  while (!transfers_.leaving().empty() && transfers_.is_copied(*transfers_.leaving().front())) {
    Block& block = *transfers_.leaving().front();
    try {
      transfers_.finish_page_out(block);
      executor_.note_left_early(block);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is as it was
    }
  }
}

/// Returns false if the lock or the plan was lost.
bool Pager::finish_page_ins_ahead(Lock& lock) {
  const bool goes_beside = t_state.is_transferring && binding_.relocates_beside();
  for (;;) {
    const auto here =
        std::ranges::find_if(transfers_.arriving(), [&](const Arrival& one) { return transfers_.is_here(one); });
    if (here == transfers_.arriving().end()) return true;
    Block& block = *here->block;
    try {
      if (here->placing || !goes_beside) {
        transfers_.finish_page_in(block, Access::kRead);
      } else if (!place_beside(*transfers_.begin_placing(block, Access::kRead), lock) ||
                 executor_.source() == nullptr) {
        return false;
      }
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is absent, and the op that needs it reads it again
    }
  }
}

/// On a transfer thread, without the lock. Returns false if another thread has the lock afterwards, which does what is
/// due.
bool Pager::place_beside(Relocating& placing, Lock& lock) {
  placing.is_beside = true;
  lock.unlock();
  transfers_.relocate(placing);
  if (lock.try_again()) return true;
  is_advance_due_.store(true);
  return lock.try_again();
}

}  // namespace tensorpager::pager
