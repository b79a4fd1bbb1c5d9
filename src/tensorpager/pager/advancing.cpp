// What a transfer thread does after each transfer while a plan is followed: page-ins that wait for a page-out are
// submitted at once, not when the next op begins.
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
  const Lock lock(*this, std::adopt_lock);
  if (executor_.source() == nullptr || transfers_.queues() == nullptr) return;
  executor_.finish_copied_page_outs();
  executor_.submit_page_ins();
  note_curve();
}

}  // namespace tensorpager::pager
