// Who says what moves ahead of its use. Without one the pager works on demand: what an op needs is paged in when it
// begins, and what was not used for longest makes way. All calls are made with the pager's lock held, for the ops of
// one thread; blocks die on any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/binding.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/plan/agenda.h"

namespace tensorpager::pager {

/// Each is a wish: where the block's state does not allow it, nothing happens, and ops are served on demand.
struct Action {
  enum class Kind : std::uint8_t {
    kPageOut,      // the copy is submitted; what is clean leaves at once. It is charged until it is awaited
    kDrop,         // the same of what should be clean, and is not awaited: where it is not, compute waits for the copy
    kAwait,        // compute waits until the block of this number, which was paged out, has left; it may be dead by now
    kAwaitQueued,  // the next page-in waits until then, in its queue
    kAwaitCopy,    // as kAwait, of what page-ins have awaited already: it is charged no longer
    kPageIn,       // submitted, in this order
    kNeed,         // compute waits until the block has come
    kMove,         // resident, and to be elsewhere, if the binding places blocks and nothing is there
    kClearAndMove,  // the same; what is there leaves
  };
  Kind kind;
  Block* block;
  std::uint64_t offset = 0;  // where it goes, if the binding places blocks
  std::uint64_t number = 0;  // of the block that is awaited: another may be where it was
  bool may_be_dirty =
      false;  // kPageIn: it dies or is paged out before it could be dropped, so no write need be noticed

  friend bool operator==(const Action&, const Action&) = default;
};

/// What the plan has no room for leaves, and page-ins to come wait for that.
inline void page_out_for_good(Block& block, std::vector<Action>& actions) {
  actions.push_back({Action::Kind::kPageOut, &block});
  actions.push_back({.kind = Action::Kind::kAwaitQueued, .block = &block, .number = block.number});
}

class ActionSource {
 public:
  virtual ~ActionSource() = default;

  /// An op begins that touches these blocks, each once; what is to be done first. True if it is the one that was
  /// expected: its end will be told too.
  virtual bool begin_op(const plan::OpSignature& op, std::span<Block* const> touched, std::vector<Action>& actions) = 0;
  /// That op has ended, and what it freed for itself is gone.
  virtual void end_op(std::vector<Action>& actions) = 0;

  virtual void created(Block& block) = 0;
  virtual void died(Block& block) noexcept = 0;

  /// Where a block that the op under way makes is to be; nothing where it is unknown.
  virtual std::optional<std::uint64_t> place_of_birth(base::Bytes size, base::Bytes charged) = 0;
  /// Where all that the op under way makes is to be, as far as it is known.
  virtual void places_of_births(std::vector<PlannedPlace>& places) const = 0;
  /// Where a block is to be that is resident now, or comes; nothing where it is unknown.
  virtual std::optional<std::uint64_t> place_of(const Block& block) const = 0;
  /// All these places are below this.
  virtual base::Bytes planned_space() const = 0;
  /// Ops until the block is used; nothing where it is unknown.
  virtual std::optional<std::uint64_t> next_use(const Block& block) const = 0;

  /// Charged in blocks when the op under way begins, as planned; nothing where it is unknown.
  virtual std::optional<base::Bytes> planned_at_begin() const = 0;
  /// When it ends, and what it made for itself is gone.
  virtual std::optional<base::Bytes> planned_at_end() const = 0;

  /// Whether the op that was told last ended a window of which each op was the one that was expected: its ops. Else 0.
  virtual std::uint32_t followed_window() const = 0;
  virtual std::uint64_t followed_ops() const = 0;
  virtual std::uint64_t resized_ops() const = 0;  // of these, called with other sizes than planned, or making others
  virtual std::uint64_t misses() const = 0;       // ops other than expected
};

}  // namespace tensorpager::pager
