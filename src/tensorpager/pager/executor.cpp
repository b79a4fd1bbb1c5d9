#include "tensorpager/pager/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tensorpager/base/event_sink.h"

namespace tensorpager::pager {

using base::Bytes;

void Executor::follow(ActionSource* source) {
  source_ = source;
  ++edits_;
  page_ins_.clear();
  left_early_.clear();
  for (Block* leaving : transfers_.leaving()) {
    leaving->is_awaited = false;  // the new source will not await it
    if (source != nullptr)
      page_ins_.push_back({.kind = Action::Kind::kAwaitQueued, .block = leaving, .number = leaving->number});
  }
  if (placed_ != nullptr) placed_->places().keep_for_plans(source != nullptr ? source->planned_space() : Bytes(0));
}

void Executor::count_followed(Statistics& counts) const {
  if (source_ == nullptr) return;
  counts.followed_ops += source_->followed_ops();
  counts.resized_ops += source_->resized_ops();
  counts.plan_misses += source_->misses();
}

bool Executor::begin_op(const base::OpSignature& op, std::span<Block* const> touched) {
  actions_.clear();
  const bool is_expected = source_->begin_op(op, touched, actions_);
  execute_all();
  submit_page_ins(placed_ != nullptr && !page_ins_.empty() ? page_ins_until(touched) : 0);
  if (placed_ != nullptr) move_into_place(touched);
  note_begin(is_expected);
  return is_expected;
}

base::OpSignature Executor::outside() {
  static const std::uint64_t kOutside = base::name_hash(base::kOutside);
  return {.name = kOutside};
}

bool Executor::begin_outside() {
  actions_.clear();
  const bool is_expected = source_->begin_op(outside(), {}, actions_);
  execute_all();
  submit_page_ins();
  note_begin(is_expected);
  return is_expected;
}

void Executor::note_begin(bool is_expected) noexcept {
  if (is_expected) as_planned_.op_begins(source_->planned_at_begin(), charged_by_plan());
  as_planned_.note_misses(source_->misses());
}

void Executor::end_op() noexcept {
  as_planned_.op_ends(source_->planned_at_end(), charged_by_plan());
  actions_.clear();
  source_->end_op(actions_);
  as_planned_.note_window(source_->followed_window());
  execute_all();
  submit_page_ins();
}

/// Bytes of charged blocks as a plan counts them: a page-in counts from its request, and the page-outs that it waits
/// for no longer do.
Bytes Executor::charged_by_plan() noexcept {
  if (difference_.changes != table_.changes() || difference_.edits != edits_) difference_ = sum_difference();
  return table_.ledger().resident() - table_.ledger().slabs() + difference_.more - difference_.less;
}

Executor::Difference Executor::sum_difference() const noexcept {
  Difference sum{.more = {}, .less = {}, .changes = table_.changes(), .edits = edits_};
  for (const LeftEarly& one : left_early_) sum.more += one.bytes;
  for (const Action& action : page_ins_) {
    if (action.kind != Action::Kind::kPageIn) continue;
    const bool is_twice = action.block->is_leaving();
    if (is_twice || !action.block->is_charged()) sum.more += action.block->charged;
  }
  // Each counts once, however often it is awaited there: it may have come back since, and be leaving once more.
  for (const Block* leaving : transfers_.leaving())
    if (leaving->is_charged() && !leaving->is_awaited && is_awaited_in_queue(leaving->number))
      sum.less += leaving->charged;
  return sum;
}

void Executor::note_left_early(const Block& block) {
  if (!block.is_awaited) return;
  left_early_.push_back({block.number, block.charged});
  ++edits_;
}

void Executor::forget_left_early(std::uint64_t number) {
  const auto found = std::ranges::find(left_early_, number, &LeftEarly::block);
  if (found == left_early_.end()) return;
  left_early_.erase(found);
  ++edits_;
}

/// Throws IoError if a transfer failed.
void Executor::execute(const Action& action) {
  Block& block = *action.block;  // may be dead if it is awaited
  switch (action.kind) {
    case Action::Kind::kPageOut:
      page_out(block, true);
      return;
    case Action::Kind::kDrop:
      page_out(block, false);
      return;
    case Action::Kind::kAwait:
      forget_left_early(action.number);
      if (Block* leaving = transfers_.find_leaving(action.number)) transfers_.finish_page_out(*leaving);
      return;
    case Action::Kind::kAwaitQueued:
      forget_left_early(action.number);
      if (Block* leaving = transfers_.find_leaving(action.number)) leaving->is_awaited = false;
      queue(action);
      return;
    case Action::Kind::kAwaitCopy:
      if (Block* leaving = transfers_.find_leaving(action.number); leaving != nullptr && !leaving->is_awaited)
        transfers_.finish_page_out(*leaving);
      else if (leaving == nullptr)
        places_.await(places_.copies_of(action.number));
      return;
    case Action::Kind::kPageIn:
      if (is_queued(block)) return;
      queue(action);
      submit_page_ins();  // before compute waits for anything else
      return;
    case Action::Kind::kForget:
      forget(block);
      return;
    case Action::Kind::kMove:
      move(block, action.offset);
      return;
    case Action::Kind::kClearAndMove:
      clear_and_move(block, action.offset);
      return;
    case Action::Kind::kNeed:
      if (block.is_arriving()) transfers_.finish_page_in(block, Access::kRead);
      return;
  }
}

void Executor::forget(Block& block) {
  forget_page_ins(block);
  ++edits_;
  if (rebuilder_ == nullptr || !transfers_.drop(block, *rebuilder_)) page_out(block, false);
}

void Executor::page_out(Block& block, bool is_awaited) {
  const bool was_to_come = forget_page_ins(block) || block.is_arriving();
  if (block.is_arriving()) transfers_.cancel_page_in(block);  // the op that it was for used another, or was faster
  ++edits_;
  if (was_to_come && is_awaited && !block.is_charged()) left_early_.push_back({block.number, block.charged});
  if (!transfers_.begin_page_out(block)) return;
  block.is_awaited = is_awaited;
  // The plan assumes that a dropped block is clean. If it is not, because its page-out was cancelled, compute waits.
  const bool is_to_be_gone = !is_awaited && !places_.passes_on();
  if (block.copying && !is_to_be_gone) return;
  transfers_.finish_page_out(block);
  note_left_early(block);
}

void Executor::execute_all() noexcept {
  for (const Action& action : actions_) {
    try {
      execute(action);
    } catch (const std::exception&) {
      ++counts_.failed_actions;  // the block is as before; the op that needs the room or the bytes tries again
    }
  }
}

void Executor::queue(const Action& action) {
  page_ins_.push_back(action);
  ++edits_;
}

void Executor::submit_page_ins(std::size_t must) {
  transfers_.finish_passed_on();
  for (; !page_ins_.empty(); page_ins_.pop_front(), ++edits_, must -= must > 0 ? 1 : 0) {
    const Action& action = page_ins_.front();
    try {
      if (action.kind == Action::Kind::kAwaitQueued) {
        Block* leaving = transfers_.find_leaving(action.number);
        if (leaving == nullptr) continue;
        if (leaving->is_passed_on()) continue;
        if (places_.passes_on())
          transfers_.pass_place_on(*leaving);
        else if (transfers_.can_pass_pages_on(*leaving) && !transfers_.is_copied(*leaving))
          transfers_.pass_pages_on(*leaving);
        else if (must > 0 || transfers_.is_copied(*leaving))
          transfers_.finish_page_out(*leaving);
        else
          return;
        continue;
      }
      Block& block = *action.block;
      if (block.is_dropped()) continue;  // who needs it has it rebuilt
      if (block.is_passed_on()) return;  // its copy is not done
      if (block.is_leaving()) take_back_or_leave(block);
      if (block.is_charged()) continue;
      if (!transfers_.has_room_for_page_in(block.charged)) return;
      const auto place = find_free_place({.bytes = block.charged, .at = action.offset});
      if (!place) return;
      transfers_.begin_page_in(block, *place, action.may_be_dirty ? Access::kWrite : Access::kRead,
                               PagesFrom::kPassedOn);
    } catch (const std::exception&) {
      ++counts_.failed_actions;
    }
  }
}

/// Counts the queued entries up to the last page-in of one of these blocks.
std::size_t Executor::page_ins_until(std::span<Block* const> touched) const {
  const auto is_needed = [&](const Action& action) {
    return action.kind == Action::Kind::kPageIn && std::ranges::find(touched, action.block) != touched.end();
  };
  return static_cast<std::size_t>(page_ins_.rend() - std::find_if(page_ins_.rbegin(), page_ins_.rend(), is_needed));
}

std::optional<Place> Executor::find_free_place(const Wanted& wanted) const {
  if (placed_ == nullptr) return Place{.bytes = wanted.bytes};
  const Places::Found found = placed_->places().find(wanted, clock_.load(std::memory_order_relaxed));
  const auto* const place = std::get_if<Place>(&found);
  return place != nullptr ? std::optional(*place) : std::nullopt;
}

/// Moves an unpinned block to `offset`. Returns false if the range is occupied; true (no-op) if the block must not
/// move.
bool Executor::move(Block& block, std::uint64_t offset) {
  if (placed_ == nullptr) return true;
  const Places& places = placed_->places();
  const auto to = places.find(PlannedPlace{offset, block.charged});
  if (!to || *to == Places::place_of(block)) return true;
  std::uint64_t word = block.state();
  const bool is_free = (word & ~kClean) == 0 && transfers_.is_claimed(block);
  // Threads that pin it from here on wait for the lock.
  if (!is_free || !block.word.compare_exchange_strong(word, word | kAbsent)) return true;
  struct Present {  // again, whatever comes
    Block& block;
    ~Present() { block.word.fetch_and(~kAbsent, std::memory_order_release); }
  } const present{block};
  if (!places.can_move(block, *to)) return false;
  places_.move(block, *to);
  return true;
}

/// Moves blocks that were paged in elsewhere, or moved to make room, to their planned places. A block that occupies
/// such a place is misplaced too, and is paged out: if each waited for the other's place, none would reach its own.
void Executor::move_into_place(std::span<Block* const> touched) {
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
void Executor::clear_and_move(Block& block, std::uint64_t offset) {
  if (move(block, offset)) return;
  const auto in_the_way = placed_->places().to_clear({offset, block.charged});
  if (!in_the_way) return;
  for (Block* other : *in_the_way) {
    if (other == &block || !transfers_.page_out(*other)) continue;
    const auto place = source_->place_of(*other);
    if (place && !is_queued(*other)) queue({.kind = Action::Kind::kPageIn, .block = other, .offset = *place});
  }
  move(block, offset);
}

/// Returns whether a page-in of the block is queued, and not submitted yet.
bool Executor::is_queued(const Block& block) const {
  return std::ranges::any_of(
      page_ins_, [&](const Action& action) { return action.block == &block && action.kind == Action::Kind::kPageIn; });
}

/// Returns whether queued page-ins wait for the page-out of this block.
bool Executor::is_awaited_in_queue(std::uint64_t number) const {
  return std::ranges::any_of(page_ins_, [&](const Action& action) {
    return action.kind == Action::Kind::kAwaitQueued && action.number == number;
  });
}

bool Executor::forget_page_ins(const Block& block) noexcept {
  const auto is_of_block = [&](const Action& action) {
    return action.block == &block && action.kind == Action::Kind::kPageIn;
  };
  if (std::erase_if(page_ins_, is_of_block) == 0) return false;
  ++edits_;
  return true;
}

/// For a block that is to come back while its page-out is in flight: it stays, unless the plan has it at another place.
/// Then it comes back there once it has left; at once if its old place may be kept until it is copied.
void Executor::take_back_or_leave(Block& block) {
  if (places_.passes_on()) {
    if (block.copying)
      transfers_.orphan_place(block);
    else
      transfers_.take_back(block);
    return;
  }
  note_left_early(block);
  if (placed_ != nullptr)
    transfers_.finish_page_out(block);
  else
    transfers_.take_back(block);
}

}  // namespace tensorpager::pager
