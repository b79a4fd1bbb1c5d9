// What a transfer thread does for a plan that is followed, after each transfer: what waits for it goes on at once, and
// not when the next op begins, and ops need not map pages for it.
#include <algorithm>
#include <exception>
#include <mutex>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

/// An op that keeps the lock waits perhaps for this very thread, or is about to do the same. It goes on with this when
/// it releases the lock: the flag is set before the last try, and read after each release.
void Pager::advance() noexcept {
  constexpr int kTries = 100;
  if (!is_followed()) return;
  bool is_mine = false;
  for (int i = 0; i < kTries && !is_mine; ++i) is_mine = mutex_.try_lock();
  if (!is_mine) {
    is_advance_due_.exchange(true);
    if (!mutex_.try_lock()) return;
  }
  const Lock lock(*this, std::adopt_lock);
  if (source_ == nullptr || tier_ == nullptr) return;
  finish_page_outs_ahead();
  submit_page_ins();
  finish_page_ins_ahead();
  note_curve();
}

/// Whose copies are done. The plan has them until it awaits them.
void Pager::finish_page_outs_ahead() {
  while (!leaving_.empty() && tier_->is_done(leaving_.front()->copy)) {
    Block& block = *leaving_.front();
    try {
      if (finish(block)) note_left_early(block);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is as it was
    }
  }
}

void Pager::finish_page_ins_ahead() {
  const auto is_done = [&](const Arrival& arrival) {
    return std::ranges::all_of(arrival.tickets, [&](transfer::Ticket ticket) { return tier_->is_done(ticket); });
  };
  while (!arriving_.empty() && is_done(arriving_.front())) {
    try {
      finish_page_in(*arriving_.front().block, Access::kRead);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is absent, and who needs it reads it again
    }
  }
}

}  // namespace tensorpager::pager
