// Following a plan: an action source is notified of the program's ops, and the replays that it has between them are
// run.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>

#include "tensorpager/base/op_signature.h"
#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/admission.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"
#include "tensorpager/pager/dropped_blocks.h"
#include "tensorpager/pager/ordering.h"

namespace tensorpager::pager {

class PinSet;

class Following {
 public:
  /// All must outlive this.
  Following(Core& core, Admission& admission, Ordering& ordering, DroppedBlocks& dropped)
      : core_(core), admission_(admission), ordering_(ordering), dropped_(dropped) {}

  /// Receives the live blocks, by number, with the lock held: blocks die on any thread.
  using Prepare = std::function<void(const std::unordered_map<std::uint64_t, Block*>& blocks)>;
  /// From now on notifies `source` of the ops of this thread, and executes its actions; null: works on demand. The
  /// source must outlive that. Call it between ops. `prepare` is called first.
  void follow(ActionSource* source, const Prepare& prepare = {});
  bool is_active() const { return core_.follower.is_active(); }

  /// An op that touches these blocks begins; unless it is unplanned, `end_op` follows. A failed transfer is tried again
  /// by the op that needs the room or the bytes. Replays that the plan has before it are run first. The blocks that
  /// `pins` has seen are admitted while the lock is held; those that cannot be are left to `Admission::admit`, which
  /// says why.
  BegunOp begin_op(const base::OpSignature& op, std::span<Block* const> touched, PinSet& pins);
  /// A replay begins that the plan has here.
  BegunOp begin_replay(const DueReplay& replay, std::span<Block* const> touched, PinSet& pins);
  /// What it makes is compared with what the program's op had made, for the statistics.
  void note_comparison();
  /// Takes the lock only if the op is a window's last one, or a replay. Else the next thread that takes it notifies the
  /// source first.
  void end_op(OpEnd end) noexcept;
  /// Before an allocation outside of ops, which is an op of the plan by itself: runs the replays before it.
  void run_replays_before_outside();

 private:
  std::optional<DueReplay> due_replay(const base::OpSignature& next);
  bool admit(PinSet& pins);

  Core& core_;
  Admission& admission_;
  Ordering& ordering_;
  DroppedBlocks& dropped_;
};

}  // namespace tensorpager::pager
