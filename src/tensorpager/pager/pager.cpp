#include "tensorpager/pager/pager.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tensorpager/base/errors.h"

namespace tensorpager::pager {

using base::Bytes;

constinit thread_local ThreadState t_state;

Pager::Pager(arena::AddressSpace& space, Binding& binding, std::unique_ptr<EvictionPolicy> policy)
    : core_(space, binding, std::move(policy)) {}

Pager::~Pager() {
  const Lock lock(core_.mutex);  // the tier's threads cannot enter any more
  core_.transfers.use(nullptr);
}

void Pager::start(const Options& options, std::unique_ptr<transfer::Queues> queues) {
  const Lock lock(core_.mutex);
  TENSORPAGER_CHECK(core_.table.absent().empty());
  core_.places.device().finish();
  core_.transfers.use(std::move(queues));
  core_.counts = Statistics();
  core_.paging_nanoseconds = 0;
  core_.table.set_budget(options.budget);
  try {
    fit_into_budget();
  } catch (...) {
    page_all_in();
    throw;
  }
  if (PageMover* const mover = core_.binding.page_mover()) mover->trim_pool(core_.ledger().pool_allowance(Bytes(0)));
  core_.transfers.settle_pool();
  core_.table.set_budget(options.budget);
  core_.first_op = core_.clock;
  core_.floor.set(Bytes(0));
  core_.curve = options.curve ? std::make_optional<Curve>() : std::nullopt;
  std::optional<Fuzzer> fuzzer;
  if (options.fuzz) fuzzer.emplace(*options.fuzz, Fuzzer::Tries{options.fuzz_evictions, options.fuzz_drops});
  boundaries_.begin_session(fuzzer, options.witness_ops);
  core_.binding.poison(options.fuzz.has_value());
}

void Pager::stop() {
  end_drops();
  const Lock lock(core_.mutex);
  boundaries_.end_session();
  page_all_in();
  core_.binding.poison(false);  // after that: what is clean is made writable as under the fuzzer
  core_.places.device().finish();
}

void Pager::set_sink(base::EventSink* sink) {
  const Lock lock(core_.mutex);
  if (sink != nullptr) {
    std::vector<const Block*> blocks(core_.table.absent().begin(), core_.table.absent().end());
    for (std::size_t i = 0; i < core_.table.residents(); ++i) blocks.push_back(&core_.table.resident(i));
    std::ranges::sort(blocks, {}, &Block::number);
    for (const Block* block : blocks)
      if (!block->is_from_replay) sink->block_born(0, {block->number, block->size, block->charged});
    sink->slab_grew(core_.ledger().slabs());
  }
  core_.sink = sink;
}

/// For blocks that are held from an earlier session.
void Pager::fit_into_budget() {
  if (!is_placed()) return core_.room.make(Bytes(0));
  for (Block* block : core_.placed->places().set_limit(core_.ledger().budget()))
    if (!core_.transfers.page_out(*block))
      throw base::OverBudget(block->charged, core_.room.pinned(), core_.ledger().budget());
}

void Pager::page_all_in() {
  core_.executor.forget_page_ins();
  core_.transfers.cancel_page_outs();
  core_.table.lift_budget();
  if (is_placed()) core_.placed->places().set_limit(base::kUnlimited);
  while (!core_.table.absent().empty()) core_.room.bring_in(*core_.table.absent().back(), Access::kWrite);
  for (std::size_t i = 0; i < core_.table.residents(); ++i) core_.transfers.make_writable(core_.table.resident(i));
}

void Pager::page_out_all() {
  const Lock lock(core_.mutex);
  core_.executor.forget_page_ins();
  while (!core_.transfers.arriving().empty()) core_.transfers.cancel_page_in(*core_.transfers.arriving().back().block);
  std::vector<Block*> resident;
  resident.reserve(core_.table.residents());
  for (std::size_t i = 0; i < core_.table.residents(); ++i) resident.push_back(&core_.table.resident(i));
  try {
    for (Block* block : resident) core_.transfers.begin_page_out(*block);
    while (!core_.transfers.leaving().empty()) core_.transfers.finish_page_out(*core_.transfers.leaving().front());
  } catch (...) {
    core_.transfers.cancel_page_outs();
    throw;
  }
}

void Pager::end_drops() {
  {
    const Lock lock(core_.mutex);
    boundaries_.end_drops();
  }
  dropped_.rebuild_all();
}

void Pager::before_fork() {
  core_.mutex.lock_for_fork();
  core_.transfers.await_relocations();
  if (core_.transfers.queues() != nullptr) core_.transfers.queues()->before_fork();
}

void Pager::after_fork(bool in_child) {
  if (core_.transfers.queues() != nullptr) core_.transfers.queues()->after_fork(in_child);
  core_.mutex.unlock_after_fork(in_child);
  if (!in_child) return;
  core_.sink = nullptr;  // its lock may be held by a thread that the child lacks
  core_.follower.forget();
  boundaries_.forget_task();
  t_state.recorded_op = 0;
}

}  // namespace tensorpager::pager
