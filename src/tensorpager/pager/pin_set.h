// What one op keeps resident while it runs: an object on the stack, so that an exception undoes it. Blocks that are
// resident are pinned as they are seen, without a lock; what is absent is collected and admitted together, or not at
// all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tensorpager/base/inline_vector.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/thread_state.h"

namespace tensorpager::pager {

/// Whether blocks that a call allocates or receives stay pinned until it returns (R1). Python-registered kernels do not
/// keep: what their ops make is held by Python objects, never by a raw pointer.
enum class Temporaries : std::uint8_t { kKeep, kLetGo };

/// The most that calls of one op created, and the most bytes of arguments: an estimate of what the next call needs in
/// one piece, if blocks share one arena.
struct WorkingRoom {
  std::atomic<std::uint64_t> arguments{0};  // bytes, the most so far
  std::atomic<std::uint64_t> created{0};    // bytes, the most so far
};

class PinSet {
 public:
  PinSet(Pager& pager, Temporaries temporaries, WorkingRoom* room = nullptr)
      : pager_(pager),
        parent_(t_state.top),
        temporaries_(temporaries),
        is_followed_(pager.following().is_active()),
        room_(room) {
    if (parent_ == nullptr) t_state.pinned = 0;
    t_state.top = this;
  }
  ~PinSet() {
    t_state.top = parent_;
    if (arguments_.count() > 0) note_created();
    for (Block* block : pins_) pager_.pins().unpin(*block);
    if (begun_.end != OpEnd::kUnplanned) {
      pager_.following().end_op(begun_.end);
      t_state.replayed_later = 0;
    }
  }
  PinSet(const PinSet&) = delete;
  PinSet& operator=(const PinSet&) = delete;

  /// An argument of the op.
  void see(Block& block, Access access) {
    if (!is_followed_ && pager_.pins().pin_if_ready(block, access)) [[likely]]
      pins_.push_back(&block);
    else
      misses_.push_back({&block, access});
  }
  /// If a plan is followed: notifies it of an op of this name, with the arguments seen so far, none of which is pinned
  /// yet, so that the plan may still move them. Those of the op that the plan expects are pinned then, if they can be.
  /// Does nothing if another op called this one, which is part of that.
  void follow(std::uint64_t name) {
    if (is_followed_ && !is_within_op(parent_)) tell_source(name);
  }
  bool is_followed() const { return is_followed_; }
  /// The same for a replay that the plan has here. Returns whether the plan expected it.
  bool follow(const DueReplay& replay) {
    base::InlineVector<Block*, kInline> blocks;
    for (const Miss& miss : misses_) blocks.push_back(miss.block);
    begun_ = pager_.following().begin_replay(replay, {blocks.begin(), blocks.size()}, *this);
    return begun_.end != OpEnd::kUnplanned;
  }
  /// Pins all blocks that were seen. Throws OverBudget or IoError, having changed no contents.
  void admit() {
    bool is_as_begun = misses_.empty();  // nothing took places, or moved what is pinned, since the op began
    if (is_followed_) pin_ready();
    if (!misses_.empty()) [[unlikely]]
      pager_.admission().admit(*this);
    if (room_ != nullptr && pager_.is_placed()) [[unlikely]] {
      note_arguments();
      if (!is_as_begun || !begun_.births_have_places) pager_.admission().keep_room(*this), is_as_begun = false;
    }
    if (pager_.is_on_device() && (!is_as_begun || !begun_.are_uses_ordered)) [[unlikely]]
      pager_.ordering().order_uses({pins_.begin(), pins_.size()});
    pager_.admission().note_working_set();
  }
  /// R1: pins a result of an inner op, or memory that this op allocated.
  void keep(Block& block) {
    if (temporaries_ == Temporaries::kKeep && pager_.pins().pin_if_ready(block, Access::kRead)) pins_.push_back(&block);
  }
  /// Takes over a pin that is counted already.
  void own(Block& block) { pins_.push_back(&block); }

  /// Bytes that this op and those around it are likely to create yet, if blocks share one arena. For arguments larger
  /// than ever before nothing is known but that it is of their order.
  base::Bytes expected_room() const {
    base::Bytes most;
    for (const PinSet* one = this; one != nullptr; one = one->parent_) most = std::max(most, one->own_expected_room());
    return most;
  }

  /// Visits what is pinned by now: arguments, temporaries and results of inner ops. Some may be dead.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (Block* block : pins_) visit(*block);
  }

  /// Whether an op runs, this one or one around it. Kernels in Python do not count.
  static bool is_within_op(const PinSet* innermost) {
    while (innermost != nullptr && !innermost->keeps_temporaries()) innermost = innermost->parent_;
    return innermost != nullptr;
  }

  PinSet* parent() const { return parent_; }
  Pager& pager() const { return pager_; }
  bool keeps_temporaries() const { return temporaries_ == Temporaries::kKeep; }

 private:
  friend class Admission;
  friend class Following;
  /// Multiple of the arguments: a convolution's backward has a workspace of several times its inputs.
  static constexpr std::uint64_t kUnknownRoom = 8;
  static constexpr std::size_t kInline = 12;  // blocks; few ops touch more

  struct Miss {
    Block* block;
    Access access;
  };

  /// Lets go of what is pinned, which is admitted with the rest later. What the op does with it is not known any more.
  void unpin_all() {
    for (Block* block : pins_) {
      misses_.push_back({block, Access::kWrite});
      pager_.pins().unpin(*block);
    }
    pins_.truncate(0);
  }
  /// Pins what is resident, now that the plan has moved what it wanted.
  void pin_ready() {
    Miss* left = misses_.begin();
    for (const Miss& miss : misses_) {
      if (pager_.pins().pin_if_ready(*miss.block, miss.access))
        pins_.push_back(miss.block);
      else
        *left++ = miss;
    }
    misses_.truncate(static_cast<std::size_t>(left - misses_.begin()));
  }
  /// Admission may fail half way.
  void forget_pinned_misses() {
    Miss* const left =
        std::remove_if(misses_.begin(), misses_.end(), [](const Miss& miss) { return miss.block == nullptr; });
    misses_.truncate(static_cast<std::size_t>(left - misses_.begin()));
  }
  base::Bytes own_expected_room() const {
    if (room_ == nullptr) return {};
    if (arguments_.count() > room_->arguments) return base::Bytes(kUnknownRoom * arguments_.count());
    const std::uint64_t done = t_state.created - created_before_;
    const std::uint64_t all = room_->created;
    return base::Bytes(all > done ? all - done : 0);
  }
  static void list_each_once(base::InlineVector<Block*, kInline>& blocks) {
    if (blocks.size() > kInline) {
      std::sort(blocks.begin(), blocks.end());
      blocks.truncate(static_cast<std::size_t>(std::unique(blocks.begin(), blocks.end()) - blocks.begin()));
      return;
    }
    Block** const listed = blocks.begin();  // for so few an insertion sort is quicker
    std::size_t count = 0;
    for (Block* const block : blocks) {
      std::size_t at = count;
      while (at > 0 && listed[at - 1] > block) --at;
      if (at > 0 && listed[at - 1] == block) continue;
      for (std::size_t i = count++; i > at; --i) listed[i] = listed[i - 1];
      listed[at] = block;
    }
    blocks.truncate(count);
  }
  void tell_source(std::uint64_t name) {
    base::InlineVector<Block*, kInline> blocks;
    for (const Miss& miss : misses_) blocks.push_back(miss.block);
    // Pin sets around this one belong to kernels in Python.
    for (const PinSet* around = parent_; around != nullptr; around = around->parent_)
      around->for_each([&](Block& block) {
        if ((block.state() & kDead) == 0) blocks.push_back(&block);
      });
    list_each_once(blocks);
    base::OpSignature signature{.name = name};
    for (const Block* block : blocks) signature.add(block->size);
    begun_ = pager_.following().begin_op(signature, {blocks.begin(), blocks.size()}, *this);
  }
  void note_arguments() {
    base::InlineVector<Block*, kInline> blocks;
    for (Block* block : pins_) blocks.push_back(block);
    list_each_once(blocks);
    for (const Block* block : blocks) arguments_ += block->charged;
    created_before_ = t_state.created;
  }
  void note_created() {
    const std::uint64_t created = t_state.created - created_before_;
    if (created > room_->created) room_->created = created;
    if (arguments_.count() > room_->arguments) room_->arguments = arguments_.count();
  }

  Pager& pager_;
  PinSet* parent_;
  base::InlineVector<Block*, kInline> pins_;
  base::InlineVector<Miss, kInline> misses_;  // all arguments, if a plan is followed
  Temporaries temporaries_;
  const bool is_followed_;  // whether a plan was followed when the op began
  WorkingRoom* room_;
  base::Bytes arguments_;  // pinned when the op was admitted; not counted unless blocks share one arena
  std::uint64_t created_before_ = 0;
  BegunOp begun_;
};

}  // namespace tensorpager::pager
