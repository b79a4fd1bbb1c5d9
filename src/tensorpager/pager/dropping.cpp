// Blocks that are dropped, and rebuilt when somebody needs them.
#include <span>
#include <vector>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

bool Pager::drop(Block& block) {
  const Lock lock(*this);
  Rebuilder* const rebuilder = rebuilder_;
  if (rebuilder == nullptr || !rebuilder->hold(block)) return false;
  try {
    if (transfers_.drop(block)) {
      note_curve();
      return true;
    }
  } catch (...) {
    rebuilder->release(block);
    throw;
  }
  rebuilder->release(block);
  return false;
}

void Pager::take_over(Block& block, Block& fresh) {
  const Lock lock(*this);
  space_.set_owner(fresh.data, nullptr);
  struct End {
    Pager& pager;
    Block& fresh;
    ~End() { pager.end_record(fresh); }
  } const end{*this, fresh};
  transfers_.take_over(block, fresh);
  transfers_.settle_pool();
  note_curve();
}

std::vector<Block*> Pager::dropped() {
  const Lock lock(*this);
  std::vector<Block*> dropped;
  for (Block* block : table_.absent())
    if (block->is_dropped()) dropped.push_back(block);
  return dropped;
}

void Pager::end_drops() {
  {
    const Lock lock(*this);
    if (fuzzer_) fuzzer_->end_drops();
  }
  rebuild(dropped());
}

void Pager::rebuild(std::span<Block* const> blocks) {
  for (Block* block : blocks) rebuilder_.load()->rebuild(*block);
}

}  // namespace tensorpager::pager
