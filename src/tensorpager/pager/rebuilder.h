// Who makes the bytes of dropped blocks again. The pager knows no op: it asks whether a block may be dropped, and has
// it rebuilt when somebody needs it. Without the lock blocks are named by number, as another thread may free them.
#pragma once

#include <cstdint>

#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

class Rebuilder {
 public:
  virtual ~Rebuilder() = default;

  // --- with the pager's lock held
  /// Whether the block can be rebuilt if it is dropped now. If so, what that needs stays as it is until the block is
  /// rebuilt or dies, or until `release`.
  virtual bool hold(Block& block) = 0;
  /// The block was not dropped after all, or it is rebuilt.
  virtual void release(const Block& block) noexcept = 0;
  /// Code outside of ops gets the block's address, and may write there at any time: nothing is rebuilt from it any
  /// more. Returns false if dropped blocks must be rebuilt from it before that.
  virtual bool expose(Block& block) noexcept = 0;

  // --- without the lock
  /// Runs a replay that a plan has here, if it can, and tells the pager of its begin and end in any case. Returns
  /// whether the plan expected it.
  virtual bool replay(const DueReplay& due) noexcept = 0;
  /// No plan is followed any more: what replays made for later ones goes.
  virtual void end_plan() noexcept = 0;
  /// Rebuilds a dropped block; does nothing if another thread did, or if it died. Throws OverBudget, IoError, or what
  /// an op throws.
  virtual void rebuild(std::uint64_t block) = 0;
  /// The same, and rebuilds all that needs the block.
  virtual void settle(std::uint64_t block) = 0;
  /// The same on another thread, for a fault, which may come in the middle of anything. Returns false if it failed.
  virtual bool settle_elsewhere(std::uint64_t block) noexcept = 0;
  /// A versioned block died: nothing that it needed must stay.
  virtual void died(std::uint64_t block) noexcept = 0;
};

}  // namespace tensorpager::pager
