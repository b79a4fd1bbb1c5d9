#include "tensorpager/pager/pager.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/paging_time.h"
#include "tensorpager/pager/pin_set.h"

namespace tensorpager::pager {

using base::Bytes;

constinit thread_local ThreadState t_state;

Pager::Pager(arena::AddressSpace& space, Binding& binding, std::unique_ptr<EvictionPolicy> policy)
    : space_(space), binding_(binding), placed_(binding.placed()), table_(std::move(policy)) {}

Pager::~Pager() {
  const Lock lock(*this);  // the tier's threads cannot enter any more
  transfers_.use(nullptr);
}

void Pager::start(const Options& options, std::unique_ptr<transfer::Queues> queues) {
  const Lock lock(*this);
  TENSORPAGER_CHECK(table_.absent().empty());
  transfers_.order().finish();
  transfers_.use(std::move(queues));
  counts_ = Statistics();
  paging_nanoseconds_ = 0;
  table_.set_budget(options.budget);
  try {
    fit_into_budget();
  } catch (...) {
    page_all_in();
    throw;
  }
  if (PageMover* const mover = binding_.page_mover()) mover->trim_pool(ledger_.pool_allowance(Bytes(0)));
  transfers_.settle_pool();
  table_.set_budget(options.budget);
  first_op_ = clock_;
  floor_ = 0;
  curve_ = options.curve ? std::make_optional<Curve>() : std::nullopt;
  fuzzer_.reset();
  if (options.fuzz) fuzzer_.emplace(*options.fuzz, Fuzzer::Tries{options.fuzz_evictions, options.fuzz_drops});
  witness_ops_ = options.witness_ops;
  boundary_work_.set_work_at_each_op(fuzzer_ || witness_ops_ != 0);
  binding_.poison(options.fuzz.has_value());
}

void Pager::stop() {
  end_drops();
  const Lock lock(*this);
  fuzzer_.reset();
  witness_ops_ = 0;
  boundary_work_.set_work_at_each_op(false);
  boundary_work_.set_task(nullptr, 0);
  page_all_in();
  binding_.poison(false);  // after that: what is clean is made writable as under the fuzzer
  transfers_.order().finish();
}

void Pager::set_sink(base::EventSink* sink) {
  const Lock lock(*this);
  if (sink != nullptr) {
    std::vector<const Block*> blocks(table_.absent().begin(), table_.absent().end());
    for (std::size_t i = 0; i < table_.residents(); ++i) blocks.push_back(&table_.resident(i));
    std::ranges::sort(blocks, {}, &Block::number);
    for (const Block* block : blocks)
      if (!block->is_from_replay) sink->block_born(0, {block->number, block->size, block->charged});
    sink->slab_grew(ledger_.slabs());
  }
  sink_ = sink;
}

/// For blocks that are held from an earlier session.
void Pager::fit_into_budget() {
  if (!is_placed()) return room_.make(Bytes(0));
  for (Block* block : placed_->places().set_limit(ledger_.budget()))
    if (!transfers_.page_out(*block)) throw base::OverBudget(block->charged, room_.pinned(), ledger_.budget());
}

void Pager::page_all_in() {
  executor_.forget_page_ins();
  transfers_.cancel_page_outs();
  table_.lift_budget();
  if (is_placed()) placed_->places().set_limit(base::kUnlimited);
  while (!table_.absent().empty()) room_.bring_in(*table_.absent().back(), Access::kWrite);
  for (std::size_t i = 0; i < table_.residents(); ++i) transfers_.make_writable(table_.resident(i));
}

Block& Pager::create_once(Bytes size) {
  auto block = std::make_unique<Block>();
  block->size = size;
  block->charged = binding_.charge_for(size);
  block->last_use = clock_.load(std::memory_order_relaxed);
  PinSet* holder = t_state.top;
  const bool held = holder != nullptr && holder->keeps_temporaries();
  block->is_from_replay = t_state.replaying != Replaying::kNo;
  base::EventSink* const sink = sink_of(*block);
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  if (is_followed() && !PinSet::is_within_op(holder)) run_replays_before_outside();
  {
    const Lock lock(*this);
    const bool is_followed = is_told_to_source();
    // An allocation outside any op is an op of the trace by itself.
    const bool is_expected = is_followed && !PinSet::is_within_op(holder) && executor_.begin_outside();
    const Wanted wanted{.bytes = block->charged,
                        .keep_whole = holder != nullptr ? holder->expected_room() : Bytes(0),
                        .at = is_followed && is_placed()
                                  ? executor_.source()->place_of_birth(block->size, block->charged)
                                  : std::nullopt};
    Place place;
    transfers_.with_fresh([&] { place = room_.make_place(wanted); });
    transfers_.begin_in(*block, place);
    block->number = ++births_;
    block->data = binding_.acquire(*block, place, ledger_.pool_allowance(block->charged));
    transfers_.settle_pool();
    block->word = (held ? kPin : 0) | (is_placed() ? kUnclaimed : 0);
    if (t_state.keeps_allocations) {
      block->kept = true;
      block->word |= kExport;
      export_bytes_ += block->charged.count();
      note_unevictable();
    }
    table_.add_resident(*block);
    space_.set_owner(block->data, block.get());
    if (is_followed) executor_.source()->created(*block);
    if (is_expected) executor_.end_op();
    note_curve();
  }
  const base::EventSink::Ticket maker = t_state.is_collectives ? base::EventSink::kBeside : t_state.recorded_op;
  if (sink != nullptr) sink->block_born(maker, {block->number, block->size, block->charged});
  records_.fetch_add(1, std::memory_order_relaxed);
  t_state.created += block->charged.count();
  if (held) {
    if (!block->kept) t_state.pinned += block->charged.count();
    holder->own(*block);
    note_working_set();
  }
  return *block.release();
}

void Pager::destroy(Block& block) noexcept {
  const std::uint64_t number = block.number;
  const bool is_versioned = block.is_versioned.load(std::memory_order_relaxed);
  destroy_block(block);
  if (Rebuilder* const rebuilder = is_versioned ? rebuilder_.load() : nullptr) rebuilder->died(number);
}

void Pager::destroy_block(Block& block) noexcept {
  base::EventSink* const sink = sink_of(block);
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  if (sink != nullptr) sink->block_died(t_state.recorded_op, block.number);
  const Lock lock(*this);
  executor_.forget_page_ins(block);
  if (executor_.source() != nullptr) executor_.source()->died(block);
  if (block.is_leaving()) {
    if (transfers_.passes_places_on() && block.copying) {  // the copy goes on, into a slot that nobody reads
      Block& orphan = transfers_.orphan_place(block);
      orphan.slot = std::exchange(block.slot, {});
      orphan.is_awaited = block.is_awaited;
    } else {
      if (executor_.source() != nullptr) executor_.note_left_early(block);
      transfers_.cancel_page_out(block);
    }
  }
  if (block.is_arriving()) transfers_.cancel_page_in(block);
  transfers_.release_slot(block);
  const std::uint64_t word = block.state();
  if ((word & kExportMask) != 0) {
    export_bytes_ -= block.charged.count();
    note_unevictable();
    if (block.kept) block.word.fetch_sub(kExport, std::memory_order_relaxed);
  }
  if (block.data != nullptr) space_.set_owner(block.data, nullptr);
  transfers_.release_memory(block);
  table_.change(block, Residence::kDead);
  transfers_.settle_pool();
  note_curve();
  end_record(block);
}

/// Of a block that died.
void Pager::end_record(Block& block) noexcept {
  const std::uint64_t bytes = block.charged.count();  // before it is dead: the thread that pinned it may forget it then
  const std::uint64_t last = block.word.fetch_or(kDead, std::memory_order_acq_rel);
  if ((last & kPinMask) != 0)
    t_state.pinned -= bytes;
  else if ((last & kExportMask) == 0)
    forget(block);
}

void Pager::forget(Block& block) noexcept {
  records_.fetch_sub(1, std::memory_order_relaxed);
  delete &block;
}

std::byte* Pager::acquire_slab_chunk_once(Bytes size) {
  const Lock lock(*this);
  Place place;
  transfers_.with_fresh([&] { place = room_.make_place({.bytes = size, .is_slab = true}); });
  transfers_.begin_slab_in(place);
  std::byte* chunk = binding_.acquire_slab_chunk(place, ledger_.pool_allowance(size));
  transfers_.settle_pool();
  table_.add_slab_chunk(size);
  note_unevictable();
  note_curve();
  if (base::EventSink* const sink = this->sink()) sink->slab_grew(ledger_.slabs());
  return chunk;
}

void Pager::admit(PinSet& pins) {
  // Whatever is thrown, the misses are cleared.
  struct Clear {
    decltype(pins.misses_)& list;
    ~Clear() { list.clear(); }
  } const clear{pins.misses_};
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  with_relief([&] { admit_once(pins); });
}

void Pager::admit_once(PinSet& pins) {
  for (;;) {
    std::vector<std::uint64_t> dropped;
    {
      const Lock lock(*this);
      dropped = Admission::dropped_among(pins);
      if (dropped.empty()) {
        admission_.admit(pins);
        return note_curve();
      }
    }
    pins.unpin_all();  // a replay needs room of its own
    rebuild(dropped);
  }
}

void Pager::keep_room(PinSet& pins) {
  const Lock lock(*this);
  if (pins.begun_.end != OpEnd::kUnplanned && births_have_places()) return;
  admission_.keep_room(pins, pins.expected_room());
}

std::optional<base::OverBudget> Pager::shortage_for(Bytes bytes) {
  const Lock lock(*this);
  const Bytes pinned = room_.pinned();
  if (pinned + bytes <= ledger_.budget()) return std::nullopt;
  return base::OverBudget(bytes, pinned, ledger_.budget());
}

void Pager::page_out_all() {
  const Lock lock(*this);
  executor_.forget_page_ins();
  while (!transfers_.arriving().empty()) transfers_.cancel_page_in(*transfers_.arriving().back().block);
  std::vector<Block*> resident;
  resident.reserve(table_.residents());
  for (std::size_t i = 0; i < table_.residents(); ++i) resident.push_back(&table_.resident(i));
  try {
    for (Block* block : resident) transfers_.begin_page_out(*block);
    while (!transfers_.leaving().empty()) transfers_.finish_page_out(*transfers_.leaving().front());
  } catch (...) {
    transfers_.cancel_page_outs();
    throw;
  }
}

void Pager::claim(Block& block, void* holder) {
  const Lock lock(*this);
  Holders* const holders = transfers_.holders();
  if (block.holder != holder && (holders == nullptr || holders->claim(block, holder)))
    block.word.fetch_and(~kUnclaimed, std::memory_order_release);
}

bool Pager::unclaim(Block& block) {
  const Lock lock(*this);
  if (block.is_absent()) return false;
  block.word.fetch_or(kUnclaimed, std::memory_order_release);
  if (Holders* const holders = transfers_.holders()) holders->give_up(block);
  return true;
}

void Pager::note_unevictable() { unevictable_ = ledger_.slabs().count() + export_bytes_; }

void Pager::note_curve() {
  if (curve_) curve_->note(clock_.load(std::memory_order_relaxed) - first_op_, ledger_.live(), ledger_.charged());
}

void Pager::before_fork() {
  mutex_.lock();
  t_state.in_pager = true;
  transfers_.await_relocations();
  if (transfers_.queues() != nullptr) transfers_.queues()->before_fork();
}

void Pager::after_fork(bool in_child) {
  if (transfers_.queues() != nullptr) transfers_.queues()->after_fork(in_child);
  t_state.in_pager = false;
  if (in_child) {
    ::new (&mutex_) std::mutex;
    sink_ = nullptr;  // its lock may be held by a thread that the child lacks
    executor_.follow(nullptr);
    is_followed_ = false;
    ended_ = nullptr;
    boundary_work_.set_task(nullptr, 0);
    t_state.recorded_op = 0;
  } else {
    mutex_.unlock();
  }
}

}  // namespace tensorpager::pager
