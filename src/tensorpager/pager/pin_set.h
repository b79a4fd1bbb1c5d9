// What one op keeps resident while it runs: an object on the stack, so that an exception takes it back. Blocks that are
// resident are pinned as they are seen, without a lock; what is absent is collected and admitted together, or not at
// all.
#pragma once

#include "tensorpager/base/inline_vector.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

/// Whether blocks that a call allocates or receives stay pinned until it returns (R1). Python-registered kernels do not
/// keep: what their ops make is held by Python objects, never by a raw pointer.
enum class Temporaries : std::uint8_t { kKeep, kLetGo };

class PinSet {
 public:
  PinSet(Pager& pager, Temporaries temporaries) : pager_(pager), parent_(t_state.top), temporaries_(temporaries) {
    if (parent_ == nullptr) t_state.pinned = 0;
    t_state.top = this;
  }
  ~PinSet() {
    t_state.top = parent_;
    for (Block* block : pins_) pager_.unpin(*block);
  }
  PinSet(const PinSet&) = delete;
  PinSet& operator=(const PinSet&) = delete;

  /// An argument of the op.
  void see(Block& block, Access access) {
    if (pager_.pin_if_ready(block, access)) [[likely]]
      pins_.push_back(&block);
    else
      misses_.push_back({&block, access});
  }
  /// Pins all that was seen. Throws OverBudget or IoError, having changed no contents.
  void admit() {
    if (!misses_.empty()) [[unlikely]]
      pager_.admit(*this);
    pager_.note_working_set();
  }
  /// R1: a result of an inner op, or memory that this op allocated.
  void keep(Block& block) {
    if (temporaries_ == Temporaries::kKeep && pager_.pin_if_ready(block, Access::kRead)) pins_.push_back(&block);
  }
  /// Takes over a pin that is counted already.
  void own(Block& block) { pins_.push_back(&block); }

  /// What is pinned by now: arguments, temporaries and results of inner ops. Some may be dead.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (Block* block : pins_) visit(*block);
  }

  PinSet* parent() const { return parent_; }
  bool keeps_temporaries() const { return temporaries_ == Temporaries::kKeep; }

 private:
  friend class Pager;
  struct Miss {
    Block* block;
    Access access;
  };

  Pager& pager_;
  PinSet* parent_;
  base::InlineVector<Block*, 12> pins_;
  base::InlineVector<Miss, 4> misses_;
  Temporaries temporaries_;
};

}  // namespace tensorpager::pager
