// Unplanned blocks, which no plan makes or knows: a checkpoint that was loaded and is kept, a model's older weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorpager/pager/action_source.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::follow {

class UnplannedBlocks {
 public:
  void add(Block& block) { last_use_[&block] = kNotSeen; }
  void forget(Block& block) noexcept { last_use_.erase(&block); }
  /// At the begin of a window: pages out what was not used since the begin of the last one, as the plan counts on its
  /// room. A block that `is_known` is unplanned no more. Returns false if some of them stay, as code outside of torch
  /// holds their addresses.
  template <typename IsKnown>
  bool leave(IsKnown is_known, std::vector<Action>& actions) {
    std::erase_if(last_use_, [&](const auto& one) { return is_known(*one.first); });
    std::vector<Block*> idle;
    for (auto& [block, last_use] : last_use_) {
      const std::uint64_t used = block->last_use.load(std::memory_order_relaxed);
      if (std::exchange(last_use, used) == used && block->is_charged()) idle.push_back(block);
    }
    std::ranges::sort(idle, {}, &Block::number);
    for (Block* block : idle) page_out_for_good(*block, actions);
    return std::ranges::none_of(idle, [](const Block* block) { return block->is_exported(); });
  }

 private:
  static constexpr std::uint64_t kNotSeen = std::numeric_limits<std::uint64_t>::max();
  std::unordered_map<Block*, std::uint64_t> last_use_;  // when the last window began
};

}  // namespace tensorpager::follow
