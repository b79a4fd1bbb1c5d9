// Blocks that are dropped, and rebuilt when somebody needs them.
#include <span>
#include <vector>

#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

void Pager::set_rebuilder(Rebuilder* rebuilder) {
  const Lock lock(*this);
  rebuilder_ = rebuilder;
  executor_.set_rebuilder(rebuilder);
}

bool Pager::drop(Block& block) {
  const Lock lock(*this);
  Rebuilder* const rebuilder = rebuilder_;
  const bool is_dropped = rebuilder != nullptr && transfers_.drop(block, *rebuilder);
  note_curve();
  return is_dropped;
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
  if (is_told_to_source()) executor_.source()->taken_over(block, fresh);
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
