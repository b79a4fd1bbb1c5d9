// A block of no pager, for tests of who only tells what is to be done with it.
#pragma once

#include <memory>

#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

struct SizedBlock : Block {
  explicit SizedBlock(base::Bytes of) { size = charged = of; }
};

inline std::unique_ptr<Block> block_of(base::Bytes size) {
  auto block = std::make_unique<Block>();
  block->size = block->charged = size;
  return block;
}

}  // namespace tensorpager::pager
