// The interface of what decides ahead of use which blocks move: a plan. Without one the pager works on demand: what an
// op needs is paged in when it begins, and the least recently used blocks are evicted. All calls are made with the
// pager's lock held, for the ops of one thread; blocks die on any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/inline_vector.h"
#include "tensorpager/base/op_signature.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/places.h"

namespace tensorpager::pager {

/// A best-effort hint: if the block's state does not allow it, nothing happens, and ops are served on demand.
struct Action {
  enum class Kind : std::uint8_t {
    kPageOut,       // submits the copy; a clean block is dropped at once. Its bytes stay charged until it is awaited
    kDrop,          // as kPageOut, of a block that should be clean, and not awaited: if it is dirty, compute waits
    kAwait,         // compute waits until the page-out of the block with this number is finished; it may be dead by now
    kAwaitQueued,   // the next page-in waits for that page-out, in its queue
    kAwaitCopy,     // as kAwait, of a page-out that page-ins have awaited already: it is no longer charged
    kPageIn,        // submits the copy; page-ins keep the order of the actions
    kNeed,          // compute waits until the page-in is finished
    kForget,        // drops a block that a replay rebuilds later; one that cannot be rebuilt is paged out
    kMove,          // moves a resident block to `offset`, if the binding places blocks and the range is free
    kClearAndMove,  // as kMove; blocks in the range are paged out first
  };
  Kind kind;
  Block* block;
  std::uint64_t offset = 0;  // target, if the binding places blocks
  std::uint64_t number = 0;  // of the awaited block: `block` may point to another one by now
  bool may_be_dirty =
      false;  // kPageIn: the block dies or is paged out before it could be dropped, so writes need not be detected

  friend bool operator==(const Action&, const Action&) = default;
};

/// Pages out a block that the plan has no room for; later page-ins wait for that.
inline void page_out_for_good(Block& block, std::vector<Action>& actions) {
  actions.push_back({Action::Kind::kPageOut, &block});
  actions.push_back({.kind = Action::Kind::kAwaitQueued, .block = &block, .number = block.number});
}

/// A replay that a plan has before the next op of the program. It is an op of the plan by itself: `begin_op` with its
/// signature, and `end_op`.
struct DueReplay {
  base::OpSignature signature;
  bool is_first = false;  // of the window
  std::uint64_t of = 0;   // what `replayed_later` was when the op ran
  std::vector<std::uint64_t> keeps =
      {};  // of what it makes, the rest is temporary: numbers of the blocks that the op made
  std::vector<const Block*> frees = {};  // blocks of earlier replays, not of the program, that nobody needs after it
};

/// How an op ends by the plan that is followed.
enum class OpEnd : std::uint8_t {
  kUnplanned,  // it is not the op that the plan expects
  kLate,       // when the lock is next taken, by any thread
  kAtOnce,     // the window ends: the program may pause, and what leaves moves meanwhile
};

/// An op that begins, as the plan that is followed has it.
struct BegunOp {
  OpEnd end = OpEnd::kUnplanned;
  bool births_have_places = false;  // whether all that it allocates can go to its planned places, if blocks have such
  bool are_uses_ordered = false;  // whether its work comes behind all that what it has pinned by now must, on a device
};

using PlacesOfBirths = base::InlineVector<PlannedPlace, 8>;  // few ops make more

class ActionSource {
 public:
  virtual ~ActionSource() = default;

  /// An op that touches these blocks, each listed once, begins; adds what is to be done first to `actions`. Returns
  /// true if it is the expected op: `end_op` follows then.
  virtual bool begin_op(const base::OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) = 0;
  /// Returns whether the op under way, which is the expected one, is the last of its window. If not, `end_op` may come
  /// late: before the next call of any other function.
  virtual bool ends_window() const = 0;
  /// That op has ended, and its temporaries are freed.
  virtual void end_op(std::vector<Action>& actions) = 0;

  /// Returns the replay that runs before `next`, the op that is about to begin, if no op is under way. None runs before
  /// an op that touches nothing, unless it is the one that the plan has after its replays: it is of no plan, and the
  /// program may free after it what the plan has freed by then.
  virtual std::optional<DueReplay> due_replay(const base::OpSignature& next) const = 0;
  /// Returns a number, not 0, by which a replay of the op under way knows it; 0 if it is not replayed.
  virtual std::uint64_t replayed_later() const = 0;
  /// A dropped block has the memory of `fresh` now, which the replay under way made, and which is no more.
  virtual void taken_over(Block& block, Block& fresh) = 0;

  virtual void created(Block& block) = 0;
  /// Any block, also one of whose birth this was not notified.
  virtual void died(Block& block) noexcept = 0;

  /// Returns the offset for a block that the op under way allocates; nullopt if it is unknown.
  virtual std::optional<std::uint64_t> place_of_birth(base::Bytes size, base::Bytes charged) = 0;
  /// Adds the places of all blocks that the op under way allocates, as far as they are known.
  virtual void places_of_births(PlacesOfBirths& places) const = 0;
  /// Returns the offset of a block that is resident or being paged in; nullopt if it is unknown.
  virtual std::optional<std::uint64_t> place_of(const Block& block) const = 0;
  /// The end of the highest planned place.
  virtual base::Bytes planned_space() const = 0;
  /// Ops until the next use of the block; nullopt if it is unknown.
  virtual std::optional<std::uint64_t> next_use(const Block& block) const = 0;

  /// Bytes charged for blocks when the op under way begins, as planned; nullopt if it is unknown.
  virtual std::optional<base::Bytes> planned_at_begin() const = 0;
  /// The same when it ends, and its temporaries are freed.
  virtual std::optional<base::Bytes> planned_at_end() const = 0;

  /// Number of ops of the window that the last reported op ended, if each of them was the expected one; else 0.
  virtual std::uint32_t followed_window() const = 0;
  virtual std::uint64_t followed_ops() const = 0;
  virtual std::uint64_t resized_ops() const = 0;  // of these, with arguments or results of other sizes than planned
  virtual std::uint64_t misses() const = 0;       // ops other than the expected one
};

}  // namespace tensorpager::pager
