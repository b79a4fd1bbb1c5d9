// Blocks that are dropped, and rebuilt when somebody needs them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/block.h"
#include "tensorpager/pager/core.h"

namespace tensorpager::pager {

class DroppedBlocks {
 public:
  /// It must outlive this.
  explicit DroppedBlocks(Core& core) : core_(core) {}

  /// From now on blocks can be dropped; it must live for ever. Null: no more are.
  void set_rebuilder(Rebuilder* rebuilder);
  /// Drops a block. Returns false if it is pinned or absent, or cannot be rebuilt. Throws IoError.
  bool drop(Block& block);
  /// Gives the dropped block of that number the memory of `fresh`, a block of the same size that only this thread has
  /// pinned and that no storage owns any more: it is dead afterwards. Returns false if no such block is dropped, as it
  /// died or was rebuilt; `fresh` is as before then. Throws IoError; then the bytes of `fresh` are lost.
  bool take_over(std::uint64_t block, Block& fresh);
  /// The numbers of all, in the order of their births.
  std::vector<std::uint64_t> numbers();

  // --- with no lock held
  /// Throws as `Rebuilder::rebuild`.
  void rebuild(std::span<const std::uint64_t> blocks);
  void rebuild_all() { rebuild(numbers()); }
  /// See Rebuilder::replay.
  bool run_replay(const DueReplay& due);

 private:
  class ReplayTime;

  Core& core_;
};

}  // namespace tensorpager::pager
