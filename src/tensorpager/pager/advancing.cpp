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
  if (source_ == nullptr || tier_ == nullptr) return;
  finish_page_outs_ahead();
  submit_page_ins();
  if (finish_page_ins_ahead(lock)) note_curve();
}

/// Finishes the page-outs whose copies are done. The plan counts them until it awaits them.
void Pager::finish_page_outs_ahead() {
  while (!leaving_.empty() && tier_->is_done(leaving_.front()->copy)) {
    Block& block = *leaving_.front();
    try {
      finish_page_out(block);
      note_left_early(block);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is as it was
    }
  }
}

/// Returns false if the lock or the plan was lost.
bool Pager::finish_page_ins_ahead(Lock& lock) {
  const bool goes_beside = t_state.is_transferring && binding_.relocates_beside();
  for (;;) {
    const auto here = std::ranges::find_if(arriving_, [&](const Arrival& arrival) { return is_here(arrival); });
    if (here == arriving_.end()) return true;
    Block& block = *here->block;
    try {
      if (here->placing || !goes_beside) {
        finish_page_in(block, Access::kRead);
      } else if (!place_beside(*begin_placing(block, Access::kRead), lock) || source_ == nullptr || tier_ == nullptr) {
        return false;
      }
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is absent, and the op that needs it reads it again
    }
  }
}

/// Returns whether the page-in can be finished without waiting.
bool Pager::is_here(const Arrival& arrival) const {
  if (arrival.placing) return arrival.placing->is_over.load(std::memory_order_acquire);
  return std::ranges::all_of(arrival.tickets, [&](transfer::Ticket ticket) { return tier_->is_done(ticket); });
}

}  // namespace tensorpager::pager
