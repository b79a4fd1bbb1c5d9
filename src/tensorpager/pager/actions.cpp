// Executes an action source's actions, and submits page-ins that wait for page-outs. All with the lock held.
#include <algorithm>
#include <exception>
#include <memory>

#include "tensorpager/base/clock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

/// Throws IoError if a transfer failed.
void Pager::execute(const Action& action) {
  Block& block = *action.block;  // may be dead if it is awaited
  switch (action.kind) {
    case Action::Kind::kPageOut:
    case Action::Kind::kDrop: {
      const bool is_awaited = action.kind == Action::Kind::kPageOut;
      const bool was_to_come = forget_page_ins(block) || block.arriving;
      if (block.arriving) abandon(block);  // the op that it was for used another, or was faster
      if (was_to_come && is_awaited && !block.is_charged()) left_early_.push_back({block.number, block.charged});
      if (!take_away(block)) return;
      block.is_awaited = is_awaited;
      // The plan assumes that a dropped block is clean. If it is not, because its page-out was cancelled, compute
      // waits.
      const bool is_to_be_gone = !is_awaited && !passes_places_on_;
      if ((!block.copying || is_to_be_gone) && finish(block)) note_left_early(block);
      return;
    }
    case Action::Kind::kAwait:
      forget_left_early(action.number);
      if (Block* leaving = find_leaving(action.number)) finish(*leaving);
      return;
    case Action::Kind::kAwaitQueued:
      forget_left_early(action.number);
      if (Block* leaving = find_leaving(action.number)) leaving->is_awaited = false;
      page_ins_.push_back(action);
      return;
    case Action::Kind::kAwaitCopy:
      if (Block* leaving = find_leaving(action.number); leaving != nullptr && !leaving->is_awaited)
        finish(*leaving);
      else if (leaving == nullptr)
        await_copy(passed_on_.newest_copy_of(action.number));
      return;
    case Action::Kind::kPageIn:
      if (is_queued(block)) return;
      page_ins_.push_back(action);
      submit_page_ins();  // before compute waits for anything else
      return;
    case Action::Kind::kMove:
      move(block, action.offset);
      return;
    case Action::Kind::kClearAndMove:
      clear_and_move(block, action.offset);
      return;
    case Action::Kind::kNeed:
      if (block.arriving) finish_page_in(block, Access::kRead);
      return;
  }
}

void Pager::execute_all(const std::vector<Action>& actions) noexcept {
  for (const Action& action : actions) {
    try {
      execute(action);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is as before; the op that needs the room or the bytes tries again
    }
  }
}

/// Submits queued page-ins in order, as far as the page-outs that they wait for are done and there is room; the rest at
/// the next op. Compute waits for the first `must`: if blocks have places, a block that the op uses before it has left
/// is not where others expect it.
void Pager::submit_page_ins(std::size_t must) {
  for (; !page_ins_.empty(); page_ins_.pop_front(), must -= must > 0 ? 1 : 0) {
    const Action& action = page_ins_.front();
    try {
      if (action.kind == Action::Kind::kAwaitQueued) {
        Block* leaving = find_leaving(action.number);
        if (leaving == nullptr) continue;
        if (passes_places_on_)
          pass_place_on(*leaving);
        else if (must > 0 || tier_->is_done(leaving->copy))
          finish(*leaving);
        else
          return;
        continue;
      }
      Block& block = *action.block;
      if (block.leaving) stay_or_leave_place(block);
      if (block.is_charged()) continue;
      if (!ledger_.fits(block.charged)) return;
      const auto place = find_free_place({.bytes = block.charged, .at = action.offset});
      if (!place) return;
      begin_page_in(block, *place, action.may_be_dirty);
    } catch (const std::exception&) {
      ++counts_.failed_actions;
    }
  }
}

/// Counts the queued entries up to the last page-in of one of these blocks.
std::size_t Pager::page_ins_until(std::span<Block* const> touched) const {
  const auto is_needed = [&](const Action& action) {
    return action.kind == Action::Kind::kPageIn && std::ranges::find(touched, action.block) != touched.end();
  };
  return static_cast<std::size_t>(page_ins_.rend() - std::find_if(page_ins_.rbegin(), page_ins_.rend(), is_needed));
}

/// Returns nullopt if the place is not free. An unplanned block in it is evicted only when an op needs room.
std::optional<Place> Pager::find_free_place(const Wanted& wanted) const {
  if (!is_placed_) return Place{.bytes = wanted.bytes};
  const Places::Found found = placed_->places().find(wanted, clock_.load(std::memory_order_relaxed));
  const auto* const place = std::get_if<Place>(&found);
  return place != nullptr ? std::optional(*place) : std::nullopt;
}

/// Moves an unpinned block to `offset`. Returns false if the range is occupied; true (no-op) if the block must not
/// move.
bool Pager::move(Block& block, std::uint64_t offset) {
  std::uint64_t word = block.state();
  const bool is_free = (word & ~kClean) == 0 && !block.leaving && binding_.is_claimed(block);
  // Threads that pin it from here on wait for the lock.
  if (!is_placed_ || !is_free || !block.word.compare_exchange_strong(word, word | kAbsent)) return true;
  const Places& places = placed_->places();
  const auto to = places.find(PlannedPlace{offset, block.charged});
  const bool moves = to && *to != places.place_of(block);
  const bool is_there = !moves || places.can_move(block, *to);
  if (moves && is_there) {
    await_copy(newest_copy_from(*to));
    placed_->move(block, *to);
  }
  block.word.fetch_and(~kAbsent, std::memory_order_release);
  return is_there;
}

/// Moves blocks that were paged in elsewhere, or moved to make room, to their planned places. A block that occupies
/// such a place is misplaced too, and is paged out: if each waited for the other's place, none would reach its own.
void Pager::move_into_place(std::span<Block* const> touched) {
  for (Block* block : touched) {
    const auto place = source_->place_of(*block);
    try {
      if (place) clear_and_move(*block, *place);
    } catch (const std::exception&) {
      ++counts_.failed_actions;
    }
  }
}

/// Pages out the blocks in the range first; those that the plan has resident elsewhere are paged in there. Throws
/// IoError.
void Pager::clear_and_move(Block& block, std::uint64_t offset) {
  if (move(block, offset)) return;
  const auto in_the_way = placed_->places().to_clear({offset, block.charged});
  if (!in_the_way) return;
  for (Block* other : *in_the_way) {
    if (other == &block || !page_out(*other)) continue;
    const auto place = source_->place_of(*other);
    if (place && !is_queued(*other))
      page_ins_.push_back({.kind = Action::Kind::kPageIn, .block = other, .offset = *place});
  }
  move(block, offset);
}

/// Returns whether a page-in of the block is queued, and not submitted yet.
bool Pager::is_queued(const Block& block) const {
  return std::ranges::any_of(
      page_ins_, [&](const Action& action) { return action.block == &block && action.kind == Action::Kind::kPageIn; });
}

/// Returns whether queued page-ins wait for the page-out of this block.
bool Pager::is_awaited_in_queue(std::uint64_t number) const {
  return std::ranges::any_of(page_ins_, [&](const Action& action) {
    return action.kind == Action::Kind::kAwaitQueued && action.number == number;
  });
}

/// Removes the block's page-ins that are not submitted yet. Returns whether there were any.
bool Pager::forget_page_ins(const Block& block) noexcept {
  return std::erase_if(page_ins_, [&](const Action& action) {
           return action.block == &block && action.kind == Action::Kind::kPageIn;
         }) > 0;
}

/// Passes the block's place on to the next user, which is ordered behind the copy.
void Pager::pass_place_on(Block& block) {
  std::uint64_t word = kClean;
  const bool goes = block.copying && (block.departed || block.word.compare_exchange_strong(word, kAbsent));
  if (!goes) {
    finish(block);  // it is clean, or was pinned meanwhile
    return;
  }
  passed_on_.remove_copied(*tier_);
  passed_on_.add(block.number, placed_->places().place_of(block), block.copy);
  count_page_out(block);
  remove_leaving(block);
  if (block.departed)
    release_departed(block);
  else
    unbind(block);
}

/// Waits for a page-out: the host is about to write where it copies from, or the plan awaits the copy.
void Pager::await_copy(transfer::Ticket copy) {
  if (copy.is_finished()) return;
  const base::Stopwatch watch(counts_.page_out_stall_seconds);
  tier_->wait(copy);
}

/// For a block that is to come back while its page-out is in flight: it stays, unless the plan has it at another place.
/// Then it comes back there once it has left; at once if its old place may be kept until it is copied.
void Pager::stay_or_leave_place(Block& block) {
  if (passes_places_on_) {
    if (!block.copying)
      settle(block);
    else
      leave_place(block);
    return;
  }
  note_left_early(block);
  if (is_placed_)
    finish(block);
  else if (!block.taken && tier_->is_done(block.copy))
    settle(block);
  else
    withdraw(block);
}

/// Makes a block absent that is still copied from its place, which a record of its own keeps in use until it is copied.
/// Returns null if the block was pinned meanwhile.
Block* Pager::leave_place(Block& block) {
  std::uint64_t word = kClean;
  if (!block.word.compare_exchange_strong(word, kAbsent)) return nullptr;
  auto old = std::make_unique<Block>();
  old->size = block.size;
  old->charged = block.charged;
  old->number = block.number;
  old->copy = block.copy;
  old->copying = old->leaving = old->departed = true;
  placed_->leave_place_to(*old, block);
  block.leaving = false;
  policy_->remove(block);
  add_absent(block);
  records_.fetch_add(1, std::memory_order_relaxed);
  return *std::find(leaving_.begin(), leaving_.end(), &block) = old.release();
}

/// The oldest page-out in flight of the block with this number; null if there is none.
Block* Pager::find_leaving(std::uint64_t number) const {
  const auto found = std::ranges::find(leaving_, number, &Block::number);
  return found == leaving_.end() ? nullptr : *found;
}

}  // namespace tensorpager::pager
