// A block of no pager, for tests of who only tells what is to be done with it.
#pragma once

#include <memory>
#include <vector>

#include "tensorpager/follow/names.h"
#include "tensorpager/pager/action_source.h"

namespace tensorpager::follow {

/// What most programs of these tests have: two sizes, and storages that are there before the first op.
constexpr base::Bytes kSize{64 << 10}, kOtherSize{128 << 10}, kWeightSize = kSize;
constexpr plan::StorageId kWeight{0}, kBias{1};

struct SizedBlock : Block {
  explicit SizedBlock(base::Bytes of) { size = charged = of; }
};

inline std::unique_ptr<Block> block_of(base::Bytes size) {
  auto block = std::make_unique<Block>();
  block->size = block->charged = size;
  return block;
}

inline void put_below(Block& block) {
  block.residence = pager::Residence::kBelow;
  block.word = pager::kAbsent;
}
inline void put_back(Block& block) {
  block.residence = pager::Residence::kResident;
  block.word = 0;
}

inline plan::Row row_of(plan::StorageId storage, base::Bytes bytes, std::uint64_t offset, std::uint32_t begin,
                        std::uint32_t end, plan::Fill fill, plan::Leave leave, std::uint32_t wait = 0) {
  return {.storage = storage,
          .bytes = bytes,
          .offset = offset,
          .begin = begin,
          .need = begin,
          .end = end,
          .wait = wait,
          .fill = fill,
          .leave = leave};
}

/// What is asked for so that a block is resident and at its place, wherever it is.
inline std::vector<Action> brings(Block& block, std::uint64_t offset, bool may_be_dirty = false) {
  return {{Action::Kind::kMove, &block, offset},
          {Action::Kind::kClearAndMove, &block, offset},
          {.kind = Action::Kind::kPageIn, .block = &block, .offset = offset, .may_be_dirty = may_be_dirty}};
}

}  // namespace tensorpager::follow
