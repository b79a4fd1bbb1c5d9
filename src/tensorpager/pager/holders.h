// The objects by which the program finds blocks that change their addresses: torch's storages, or what stands for them
// in tests. Called with the pager's lock held.
#pragma once

#include <cstddef>
#include <span>

#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

class Holders {
 public:
  virtual ~Holders() = default;
  /// From now on notifies this holder where the block is. Returns false if it does not own the block.
  virtual bool claim(Block& block, void* holder) = 0;
  /// Gives the resident block back to its holder as it was before the claim, so that it may hand the block on.
  virtual void give_up(Block& block) = 0;
  /// Whether the block's holder still has it. A program may have moved it elsewhere.
  virtual bool has(const Block& block) const = 0;
  /// Reports where the block's bytes are from now on; null: paged out, raw access raises.
  virtual void set_data(Block& block, std::byte* data) = 0;
  /// From now on raw access to blocks that are paged out does not raise, and no longer to these.
  virtual void stop_raising(std::span<Block* const> absent) = 0;
  /// The block died: its holder is not notified any more.
  virtual void forget(Block& block) noexcept = 0;
};

}  // namespace tensorpager::pager
