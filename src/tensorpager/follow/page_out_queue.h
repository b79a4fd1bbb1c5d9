// The page-outs of a plan of which compute does not know that they are done, oldest first.
//
// A plan names a page-out by its ticket, and who awaits it awaits all older ones. Compute may await them, or the queue
// of page-ins: then compute does not wait, and knows that they are done once it has waited for a page-in that was
// submitted after that. Where a plan continues from elsewhere, the page-outs that it has in flight were not submitted;
// they are kept apart, as a number of bytes that the plan counts and nobody has charged.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/follow/names.h"

namespace tensorpager::follow {

class PageOutQueue {
 public:
  struct PageOut {
    std::uint32_t row;
    std::uint32_t ticket;  // from 1
    std::uint64_t window;
    Block* block;          // null: it was never there; may be dead
    std::uint64_t number;  // of the block
  };
  /// `until`: the op before which the plan awaits it, counted over all windows.
  struct NotSubmitted {
    base::Bytes bytes;
    std::uint64_t until;
  };

  /// For windows of so many ops.
  explicit PageOutQueue(std::uint32_t ops) : done_by_need_(ops + 1) {}

  void add(PageOut page_out) { page_outs_.push_back(page_out); }
  const std::deque<PageOut>& in_flight() const { return page_outs_; }

  /// Compute awaits the newest page-out with this ticket and all that are older.
  void await(std::uint32_t ticket, std::vector<Action>& actions);
  /// The queue of page-ins awaits them, as far as it has not yet.
  void await_queued(std::uint32_t ticket, std::vector<Action>& actions);
  /// The queue of page-ins awaits all, and compute none of them any more.
  void await_all_queued(std::vector<Action>& actions);

  /// A page-in that is needed at the op `need` is submitted now; the number of ops: only the next window needs it.
  void note_page_in(std::uint32_t need) { done_by_need_[need] = queued_; }
  /// Compute has waited for the page-ins that are needed at this op.
  void note_needed(std::uint32_t need) { forget_until(done_by_need_[need]); }
  /// A window begins, with the op of this number counted over all windows. Each page-out is awaited within a window,
  /// unless ops were left out: page-ins await those that are older.
  void begin_window(std::uint64_t window, std::uint64_t op, std::vector<Action>& actions);
  /// All are done.
  void forget_all() { forget_until(all()); }

  void set_not_submitted(std::vector<NotSubmitted> page_outs) { not_submitted_ = std::move(page_outs); }
  /// The bytes that the plan counts when this op runs, counted over all windows, of page-outs that were not submitted.
  base::Bytes not_submitted(std::uint64_t op) const;

 private:
  std::uint64_t all() const { return forgotten_ + page_outs_.size(); }
  /// How many page-outs there have been up to the newest with this ticket; 0 if it is known to be done.
  std::uint64_t count_until(std::uint32_t ticket) const;
  void queue_until(std::uint64_t count, std::vector<Action>& actions);
  void forget_until(std::uint64_t count);

  std::deque<PageOut> page_outs_;
  std::uint64_t forgotten_ = 0;              // page-outs before those
  std::uint64_t queued_ = 0;                 // how many of all, forgotten ones too, the queue of page-ins awaits
  std::vector<std::uint64_t> done_by_need_;  // how many are done once compute has waited for the page-ins needed there
  std::vector<NotSubmitted> not_submitted_;
};

}  // namespace tensorpager::follow
