// Pages of blocks that are leaving, passed on to page-ins before they are copied to the tier. Such a page-in is queued
// behind the copies of all whose pages it gets. If a copy fails nothing was read into the block's pages, so they are
// the block's again.
#pragma once

#include <deque>
#include <vector>

#include "tensorpager/arena/page_pool.h"
#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/block.h"

namespace tensorpager::pager {

class PassedOnPages {
 public:
  /// `at`: where the block's pages lie side by side when they are copied. Blocks are added in the order of their
  /// copies.
  void add(Block& block, std::byte* at);
  /// Removes a block whose copy is over; returns those of its pages that no page-in has taken.
  std::vector<arena::Piece> remove(const Block& block);

  bool empty() const { return records_.empty(); }
  /// The block whose copy is done first. There must be one.
  Block& oldest() const { return *records_.front().block; }
  /// Bytes that no page-in has taken.
  base::Bytes bytes() const { return bytes_; }

  struct Taken {
    std::vector<arena::Piece> pieces;
    base::Bytes bytes;           // of them; less than asked for if there is no more in so few pieces
    transfer::Fence after = {};  // their copies
  };
  /// What `take` would take.
  base::Bytes takeable(base::Bytes bytes) const { return find(bytes).bytes; }
  /// Takes pages of the oldest copies. Whole huge pages come first, of large requests.
  Taken take(base::Bytes bytes);
  /// Gives back what a cancelled page-in had taken. Returns false if the copy from there is over, or there was none.
  bool give_back(const arena::Piece& piece);

 private:
  struct Record {
    Block* block;
    arena::Piece all;
    std::vector<arena::Piece> left;
  };

  Taken find(base::Bytes bytes) const;

  std::deque<Record> records_;  // oldest copy first
  base::Bytes bytes_;
};

}  // namespace tensorpager::pager
