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
    : space_(space),
      binding_(binding),
      placed_(binding.placed()),
      is_placed_(placed_ != nullptr),
      policy_(std::move(policy)),
      ledger_(base::kUnlimited) {}

Pager::~Pager() {
  const Lock lock(*this);  // the tier's threads cannot enter any more
  tier_.reset();
}

void Pager::start(const Options& options, std::unique_ptr<transfer::Engine> tier) {
  const Lock lock(*this);
  TENSORPAGER_CHECK(absent_.empty());
  tier_ = std::move(tier);
  // If blocks have places, one that left early would leave its place to others than the plan's; and storages are
  // notified of it on the threads that use them.
  if (!is_placed_)
    tier_->set_observer([this] {
      t_state.is_transferring = true;
      advance();
    });
  passes_places_on_ = is_placed_ && placed_->passes_places_on() && !tier_->may_fail_late();
  passed_on_ = {};
  counts_ = Statistics();
  paging_nanoseconds_ = 0;
  ledger_.set_budget(options.budget);
  try {
    fit_into_budget();
  } catch (...) {
    page_all_in();
    throw;
  }
  binding_.trim_pool(ledger_.pool_allowance(Bytes(0)));
  settle_pool();
  ledger_.set_budget(options.budget);
  first_op_ = clock_;
  floor_ = 0;
  curve_ = options.curve ? std::make_optional<Curve>() : std::nullopt;
  fuzz_ = options.fuzz ? std::make_optional<std::mt19937_64>(*options.fuzz) : std::nullopt;
  fuzz_evictions_ = options.fuzz_evictions;
  witness_ops_ = options.witness_ops;
  binding_.poison(options.fuzz.has_value());
  note_boundary_work();
}

void Pager::stop() {
  const Lock lock(*this);
  fuzz_.reset();
  witness_ops_ = 0;
  task_ = nullptr;
  note_boundary_work();
  binding_.poison(false);
  page_all_in();
}

void Pager::set_sink(base::EventSink* sink) {
  const Lock lock(*this);
  if (sink != nullptr) {
    std::vector<const Block*> blocks(absent_.begin(), absent_.end());
    for (std::size_t i = 0; i < policy_->size(); ++i) blocks.push_back(policy_->at(i));
    std::ranges::sort(blocks, {}, &Block::number);
    for (const Block* block : blocks) sink->block_born(0, {block->number, block->size, block->charged});
    sink->slab_grew(ledger_.slabs());
  }
  sink_ = sink;
}

/// For blocks that are held from an earlier session.
void Pager::fit_into_budget() {
  if (!is_placed_) return make_room(Bytes(0));
  for (Block* block : placed_->places().set_limit(ledger_.budget()))
    if (!page_out(*block)) throw base::OverBudget(block->charged, pinned_now(), ledger_.budget());
}

void Pager::page_all_in() {
  page_ins_.clear();
  withdraw_all();
  ledger_.lift_budget();
  if (is_placed_) placed_->places().set_limit(base::kUnlimited);
  while (!absent_.empty()) bring_in(*absent_.back(), Access::kWrite);
  for (std::size_t i = 0; i < policy_->size(); ++i)
    if (policy_->at(i)->is_clean()) make_writable(*policy_->at(i));
}

Block& Pager::create_once(Bytes size) {
  auto block = std::make_unique<Block>();
  block->size = size;
  block->charged = binding_.charge_for(size);
  block->last_use = clock_.load(std::memory_order_relaxed);
  PinSet* holder = t_state.top;
  const bool held = holder != nullptr && holder->keeps_temporaries();
  base::EventSink* const sink = this->sink();
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  {
    const Lock lock(*this);
    const bool is_followed = is_told_to_source();
    // An allocation outside any op is an op of the trace by itself.
    const bool is_expected = is_followed && !PinSet::is_within_op(holder) && tell_outside();
    const Wanted wanted{
        .bytes = block->charged,
        .keep_whole = holder != nullptr ? holder->expected_room() : Bytes(0),
        .at = is_followed && is_placed_ ? source_->place_of_birth(block->size, block->charged) : std::nullopt};
    Place place;
    with_fresh_transfers([&] { place = make_place(wanted); });
    block->number = ++births_;
    block->data = binding_.acquire(*block, place, ledger_.pool_allowance(block->charged));
    await_copy(newest_copy_from(place));
    settle_pool();
    ledger_.born(block->charged);
    block->word = (held ? kPin : 0) | (is_placed_ ? kUnclaimed : 0);
    if (t_state.keeps_allocations) {
      block->kept = true;
      block->word |= kExport;
      export_bytes_ += block->charged.count();
      note_unevictable();
    }
    policy_->add(*block);
    space_.set_owner(block->data, block.get());
    if (is_followed) source_->created(*block);
    if (is_expected) tell_end();
    note_curve();
  }
  if (sink != nullptr) sink->block_born(t_state.recorded_op, {block->number, block->size, block->charged});
  records_.fetch_add(1, std::memory_order_relaxed);
  t_state.created += block->charged.count();
  if (held) {
    t_state.pinned += block->charged.count();
    holder->own(*block);
    note_working_set();
  }
  return *block.release();
}

void Pager::destroy(Block& block) noexcept {
  base::EventSink* const sink = this->sink();
  const PagingTime paging(is_paging_timed(), &paging_nanoseconds_);
  if (sink != nullptr) sink->block_died(t_state.recorded_op, block.number);
  const Lock lock(*this);
  forget_page_ins(block);
  if (source_ != nullptr) source_->died(block);
  Block* const place = passes_places_on_ && block.leaving && block.copying ? leave_place(block) : nullptr;
  if (place != nullptr) {  // the copy goes on, into a slot that nobody reads
    place->slot = std::exchange(block.slot, {});
    place->word = kClean;
    place->is_awaited = block.is_awaited;
  }
  if (block.leaving && source_ != nullptr) note_left_early(block);
  withdraw(block);
  if (block.arriving) abandon(block);
  const std::uint64_t word = block.state();
  const bool resident = (word & kAbsent) == 0;
  if (resident)
    policy_->remove(block);
  else
    remove_absent(block);
  if ((word & (kAbsent | kClean)) != 0 && place == nullptr) release_slot(block);
  if ((word & kExportMask) != 0) {
    export_bytes_ -= block.charged.count();
    note_unevictable();
    if (block.kept) block.word.fetch_sub(kExport, std::memory_order_relaxed);
  }
  if (block.data != nullptr) space_.set_owner(block.data, nullptr);
  binding_.release(block);
  ledger_.died(block.charged, resident);
  settle_pool();
  note_curve();
  const std::uint64_t last = block.word.fetch_or(kDead, std::memory_order_acq_rel);
  if ((last & kPinMask) != 0)
    t_state.pinned -= block.charged.count();
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
  with_fresh_transfers([&] { place = make_place({.bytes = size, .is_slab = true}); });
  std::byte* chunk = binding_.acquire_slab_chunk(place, ledger_.pool_allowance(size));
  await_copy(newest_copy_from(place));
  settle_pool();
  ledger_.born_in_slab(size);
  note_unevictable();
  note_curve();
  if (base::EventSink* const sink = this->sink()) sink->slab_grew(ledger_.slabs());
  return chunk;
}

void Pager::claim(Block& block, void* holder) {
  const Lock lock(*this);
  if (block.holder != holder && binding_.claim(block, holder))
    block.word.fetch_and(~kUnclaimed, std::memory_order_release);
}

bool Pager::unclaim(Block& block) {
  const Lock lock(*this);
  if (block.is_absent()) return false;
  block.word.fetch_or(kUnclaimed, std::memory_order_release);
  binding_.unclaim(block);
  return true;
}

void Pager::note_unevictable() { unevictable_ = ledger_.slabs().count() + export_bytes_; }

void Pager::note_curve() {
  if (curve_) curve_->note(clock_.load(std::memory_order_relaxed) - first_op_, ledger_.live(), ledger_.charged());
}

void Pager::settle_pool() { ledger_.set_pooled(binding_.pooled()); }

void Pager::before_fork() {
  mutex_.lock();
  t_state.in_pager = true;
  await_relocations();
  if (tier_) tier_->before_fork();
}

void Pager::after_fork(bool in_child) {
  if (tier_) tier_->after_fork(in_child);
  t_state.in_pager = false;
  if (in_child) {
    ::new (&mutex_) std::mutex;
    sink_ = nullptr;  // its lock may be held by a thread that the child lacks
    source_ = nullptr;
    if (is_placed_) placed_->places().keep_for_plans(Bytes(0));
    is_followed_ = false;
    is_advance_due_ = false;
    page_ins_.clear();
    task_ = nullptr;
    t_state.recorded_op = 0;
  } else {
    mutex_.unlock();
  }
}

}  // namespace tensorpager::pager
