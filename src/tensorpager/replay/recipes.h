// How the contents of each block were made, as far as it is known, and which dropped blocks need which others.
//
// Its lock is taken with the pager's held, and never the other way; no storage of a block that it keeps alive is let go
// of under it, as that may free the block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/replay/recipe.h"

namespace tensorpager::replay {

/// What may be known of it without a lock, as another thread may free it.
struct DroppedBlock {
  std::uint64_t number = 0;
  base::Bytes size;
  friend bool operator==(const DroppedBlock&, const DroppedBlock&) = default;
};

class Recipes {
 public:
  // --- what ops do
  /// The contents of a block now, and how they were made: empty if that is not known, and if the chain of calls behind
  /// them is as long as may be, so that the next call needs the block itself. From now on the block is versioned: its
  /// writes must be announced.
  std::pair<Contents, Product> contents_of(pager::Block& block);
  /// The contents of a versioned block now.
  Contents contents_of(std::uint64_t block);
  /// An op is about to write these versioned blocks. Returns the dropped blocks that must be rebuilt before it does.
  std::vector<std::uint64_t> begin_write(std::span<const std::uint64_t> blocks);
  /// It has: each has other contents now.
  void end_write(std::span<const std::uint64_t> blocks);
  /// The call made, or wrote, what its outputs say.
  void add(const std::shared_ptr<const Call>& call);
  /// Nobody will know the block's contents from now on. Returns false if dropped blocks need them.
  bool expose(pager::Block& block);
  /// The versioned block died. What it needed is let go of.
  void died(std::uint64_t block);

  // --- calls that a plan replays
  /// A replay of the plan's row was compared with what the program's op had made.
  void note_compared(std::uint64_t row);
  bool is_compared(const Call& call);
  /// There is a new plan, none of whose rows is.
  void forget_compared();
  /// Storages that hold what the call made or wrote, and are not dropped, by output; null if none does. Only of a row
  /// that is not compared yet.
  std::vector<c10::Storage> to_compare(const Call& call);

  // --- dropped blocks
  /// See pager::Rebuilder::hold. What a plan's row made is not dropped before the row is compared.
  bool hold(pager::Block& block);
  /// The block was not dropped, or it is rebuilt.
  void release(std::uint64_t block);
  /// Dropped blocks that need the block.
  std::vector<std::uint64_t> dependents_of(std::uint64_t block);
  /// Whether the versioned block is dropped, dead, or written since.
  bool is_gone(const Contents& contents);
  /// The product that a dropped block is; empty if it is not dropped.
  Product product_of_dropped(std::uint64_t block);
  /// The storage of contents that are there, or that are those of a dropped block; null if they must be made again.
  c10::Storage storage_of(const Call::Input& input);
  /// Dropped blocks among what the call makes, by output.
  std::vector<std::optional<DroppedBlock>> dropped_outputs(const Call& call);
  /// Lets go of what is no longer needed, which may free blocks. No lock may be held.
  void let_go();
  /// Forgets all. Nothing may be dropped.
  void clear();

  /// To be held over a fork.
  std::mutex& lock() { return mutex_; }

 private:
  static constexpr std::uint32_t kDeepest = 512;   // the longest chain of calls
  static constexpr std::size_t kMostCalls = 1024;  // that one block may be rebuilt by

  struct Known {
    std::uint32_t version = 0;
    std::uint32_t writers = 0;  // ops that write it now
    bool is_exposed = false;
    Product made_by;
  };
  struct Dropped {
    base::Bytes size;
    Product made_by;
    std::vector<c10::Storage> needs;  // kept alive: what nobody can make
    std::vector<std::uint64_t> needed_blocks;
  };

  c10::Storage living(const Contents& contents, const WeakStorage& weak);
  bool is_settled(const Contents& contents) const;
  bool collect(const Call& call, Dropped& dropped, std::unordered_map<const Call*, bool>& seen);
  std::vector<std::uint64_t> needing(std::uint64_t block) const;
  void end(std::unordered_map<std::uint64_t, Dropped>::iterator dropped);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Known> known_;  // versioned blocks only
  std::unordered_map<std::uint64_t, Dropped> dropped_;
  std::unordered_set<std::uint64_t> compared_;                               // rows
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> needed_by_;  // dropped blocks, by a block they need
  std::vector<c10::Storage> to_let_go_;
  std::atomic<bool> has_to_let_go_{false};
};

}  // namespace tensorpager::replay
