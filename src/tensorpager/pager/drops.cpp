// Drops single blocks, and gives them the memory that a replay has filled. All with the lock held.
#include "tensorpager/base/clock.h"
#include "tensorpager/pager/transfers.h"

namespace tensorpager::pager {

bool Transfers::drop(Block& block, Rebuilder& rebuilder) {
  // What is dropped already is held for that.
  if (block.residence != Residence::kResident || !rebuilder.hold(block)) return false;
  try {
    if (take_away(block)) return true;
  } catch (...) {
    rebuilder.release(block);
    throw;
  }
  rebuilder.release(block);
  return false;
}

bool Transfers::take_away(Block& block) {
  if (!may_leave(block)) return false;
  std::uint64_t word = block.state();
  if ((word & ~kClean) != 0 || !block.word.compare_exchange_strong(word, kAbsent)) return false;
  const base::Stopwatch watch(counts_.page_out_handling_seconds);
  try {
    unbind(block);
  } catch (...) {
    ++block.mended;
    block.word.store(word, std::memory_order_release);
    throw;
  }
  release_slot(block);
  table_.change(block, Residence::kDropped);
  settle_pool();
  ++counts_.drops;
  counts_.drop_bytes += block.charged.count();
  return true;
}

void Transfers::take_over(Block& block, Block& fresh) {
  const base::Stopwatch watch(counts_.page_in_handling_seconds);
  fresh.word.fetch_or(kAbsent, std::memory_order_acq_rel);
  if (placed_ != nullptr) block.use().begin_behind(places_.uses_of(fresh));
  const Relocation pages = binding_.begin_take_over(block, fresh);
  table_.change(fresh, Residence::kDead);
  try {
    pages.carry_out();
  } catch (...) {
    pages.cancel();
    throw;
  }
  pages.end();
  ++block.mended;
  ++counts_.rebuilds;
  counts_.rebuild_bytes += block.charged.count();
  block.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table_.change(block, Residence::kResident);
}

}  // namespace tensorpager::pager
