// The states of a block, and which follow which. A state changes when a transfer is submitted, not when it is done:
// the next user of the bytes, or of the place, of a transfer under way waits for its ticket or is queued behind it.
//
// `BlockTable` makes every change. It keeps the list of evictable candidates, the list of blocks out of memory, and the
// account of charged bytes true, so nothing else touches these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensorpager/arena/ledger.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/eviction_policy.h"

namespace tensorpager::pager {

struct Transition {
  Residence from, to;
  std::string_view when;
};

/// All transitions there are, but births: a block is born resident, and an orphan is born as such.
std::span<const Transition> transitions();
bool may_become(Residence from, Residence to);
std::string_view to_string(Residence residence);

class BlockTable {
 public:
  explicit BlockTable(std::unique_ptr<EvictionPolicy> policy);

  /// A new block, resident. Its word is the caller's, and is set before.
  void add_resident(Block& block);
  /// The record of a place that is in use until it is copied: it takes over the charge of a block that goes below.
  void add_orphan(Block& block);
  /// Ends the process if `transitions()` lacks it. A resident block that goes elsewhere has the absent bit already, or
  /// dies; one that becomes resident gets the word `kClean` or 0, last.
  void change(Block& block, Residence to, std::uint64_t word = 0);

  /// The resident blocks, in no particular order.
  std::size_t residents() const { return policy_->size(); }
  Block& resident(std::size_t index) const { return *policy_->at(index); }
  /// The least recently used block that can be evicted; null if there is none.
  Block* choose_victim() const { return policy_->choose(); }
  /// Blocks that are leaving, below, arriving or dropped, in no particular order.
  const std::vector<Block*>& absent() const { return absent_; }
  /// Those that are dropped, by number.
  const std::unordered_map<std::uint64_t, Block*>& dropped() const { return dropped_; }
  std::size_t live() const { return policy_->size() + absent_.size(); }

  /// Counts the changes so far, but births and deaths in memory.
  std::uint64_t changes() const { return changes_; }

  /// The account of charged bytes. Blocks change it by their transitions only.
  const arena::Ledger& ledger() const { return ledger_; }
  void add_slab_chunk(base::Bytes size) { ledger_.born_in_slab(size); }
  void set_pooled(base::Bytes pooled) { ledger_.set_pooled(pooled); }
  void set_passed_on(base::Bytes passed_on) { ledger_.set_passed_on(passed_on); }
  void set_budget(base::Bytes budget) { ledger_.set_budget(budget); }
  void lift_budget() { ledger_.lift_budget(); }
  void forget_recent_peak() { ledger_.forget_recent_peak(); }

 private:
  void add_absent(Block& block);
  void remove_absent(Block& block) noexcept;

  std::unique_ptr<EvictionPolicy> policy_;  // of the resident ones
  std::vector<Block*> absent_;
  std::unordered_map<std::uint64_t, Block*> dropped_;
  arena::Ledger ledger_{base::kUnlimited};
  std::uint64_t changes_ = 0;
};

}  // namespace tensorpager::pager
