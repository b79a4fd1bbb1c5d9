#include "tensorpager/pager/storages.h"

#include <memory>
#include <optional>
#include <utility>

#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

using base::Bytes;

/// Who is told of the block: null if nobody is.
base::EventSink* Storages::sink_of(const Block& block) const {
  return block.is_from_replay ? nullptr : core_.sink.load(std::memory_order_acquire);
}

Block& Storages::create_once(Bytes size) {
  auto block = std::make_unique<Block>();
  block->size = size;
  block->charged = core_.binding.charge_for(size);
  block->last_use = core_.clock.load(std::memory_order_relaxed);
  PinSet* holder = t_state.top;
  const bool held = holder != nullptr && holder->keeps_temporaries();
  block->is_from_replay = t_state.replaying != Replaying::kNo;
  base::EventSink* const sink = sink_of(*block);
  const PagingTime paging = core_.time_paging();
  if (following_.is_active() && !PinSet::is_within_op(holder)) following_.run_replays_before_outside();
  {
    const Lock lock(core_.mutex);
    const bool is_followed = core_.follower.is_told_to_source();
    // An allocation outside any op is an op of the trace by itself.
    const bool is_expected = is_followed && !PinSet::is_within_op(holder) && core_.executor.begin_outside();
    const Wanted wanted{.bytes = block->charged,
                        .keep_whole = holder != nullptr ? holder->expected_room() : Bytes(0),
                        .at = is_followed && core_.placed != nullptr
                                  ? core_.executor.source()->place_of_birth(block->size, block->charged)
                                  : std::nullopt};
    Place place;
    core_.transfers.with_fresh([&] { place = core_.room.make_place(wanted); });
    core_.places.begin_in(*block, place);
    block->number = ++births_;
    block->data = core_.binding.acquire(*block, place, core_.ledger().pool_allowance(block->charged));
    core_.transfers.settle_pool();
    block->word = (held ? kPin : 0) | (core_.placed != nullptr ? kUnclaimed : 0);
    if (t_state.keeps_allocations) {
      block->kept = true;
      block->word |= kExport;
      core_.floor.add_export(block->charged);
    }
    core_.table.add_resident(*block);
    core_.space.set_owner(block->data, block.get());
    if (is_followed) core_.executor.source()->created(*block);
    if (is_expected) core_.executor.end_op();
    core_.note_curve();
  }
  const base::EventSink::Ticket maker = t_state.is_collectives ? base::EventSink::kBeside : t_state.recorded_op;
  if (sink != nullptr) sink->block_born(maker, {block->number, block->size, block->charged});
  core_.pins.note_record();
  t_state.created += block->charged.count();
  if (held) {
    if (!block->kept) t_state.pinned += block->charged.count();
    holder->own(*block);
    core_.floor.note_working_set();
  }
  return *block.release();
}

void Storages::destroy(Block& block) noexcept {
  const std::uint64_t number = block.number;
  const bool is_versioned = block.is_versioned.load(std::memory_order_relaxed);
  destroy_block(block);
  if (Rebuilder* const rebuilder = is_versioned ? core_.rebuilder.load() : nullptr) rebuilder->died(number);
}

void Storages::destroy_block(Block& block) noexcept {
  base::EventSink* const sink = sink_of(block);
  const PagingTime paging = core_.time_paging();
  if (sink != nullptr) sink->block_died(t_state.recorded_op, block.number);
  const Lock lock(core_.mutex);
  core_.executor.forget_page_ins(block);
  if (core_.executor.source() != nullptr) core_.executor.source()->died(block);
  if (block.is_leaving()) {
    if (core_.places.passes_on() && block.copying) {  // the copy goes on, into a slot that nobody reads
      Block& orphan = core_.transfers.orphan_place(block);
      orphan.slot = std::exchange(block.slot, {});
      orphan.is_awaited = block.is_awaited;
    } else {
      if (core_.executor.source() != nullptr) core_.executor.note_left_early(block);
      core_.transfers.cancel_page_out(block);
    }
  }
  if (block.is_arriving()) core_.transfers.cancel_page_in(block);
  core_.transfers.release_slot(block);
  const std::uint64_t word = block.state();
  if ((word & kExportMask) != 0) {
    core_.floor.remove_export(block.charged);
    if (block.kept) block.word.fetch_sub(kExport, std::memory_order_relaxed);
  }
  if (block.data != nullptr) core_.space.set_owner(block.data, nullptr);
  core_.transfers.release_memory(block);
  core_.table.change(block, Residence::kDead);
  core_.transfers.settle_pool();
  core_.note_curve();
  core_.pins.end_record(block);
}

std::byte* Storages::acquire_slab_chunk_once(Bytes size) {
  const Lock lock(core_.mutex);
  Place place;
  core_.transfers.with_fresh([&] { place = core_.room.make_place({.bytes = size, .is_slab = true}); });
  core_.places.begin_slab_in(place);
  std::byte* chunk = core_.binding.acquire_slab_chunk(place, core_.ledger().pool_allowance(size));
  core_.transfers.settle_pool();
  core_.table.add_slab_chunk(size);
  core_.floor.note_unevictable();
  core_.note_curve();
  if (base::EventSink* const sink = core_.sink.load()) sink->slab_grew(core_.ledger().slabs());
  return chunk;
}

void Storages::claim(Block& block, void* holder) {
  const Lock lock(core_.mutex);
  Holders* const holders = core_.transfers.holders();
  if (block.holder != holder && (holders == nullptr || holders->claim(block, holder)))
    block.word.fetch_and(~kUnclaimed, std::memory_order_release);
}

bool Storages::unclaim(Block& block) {
  const Lock lock(core_.mutex);
  if (block.is_absent()) return false;
  block.word.fetch_or(kUnclaimed, std::memory_order_release);
  if (Holders* const holders = core_.transfers.holders()) holders->give_up(block);
  return true;
}

}  // namespace tensorpager::pager
