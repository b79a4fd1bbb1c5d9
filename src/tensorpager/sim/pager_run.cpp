#include "tensorpager/sim/pager_run.h"

#include <algorithm>

#include "tensorpager/arena/address_space.h"
#include "tensorpager/base/config.h"
#include "tensorpager/follow/agenda.h"
#include "tensorpager/follow/plan_switch.h"
#include "tensorpager/pager/lru_policy.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/pager/pin_set.h"
#include "tensorpager/sim/bookkeeping_binding.h"
#include "tensorpager/sim/virtual_queues.h"

namespace tensorpager::sim {

using base::Bytes;
using pager::Access;
using pager::Block;
using trace::index;
using trace::StorageId;

namespace {

std::vector<std::shared_ptr<const follow::Agenda>> agendas_of(const std::vector<PagerRun::Class>& classes) {
  std::vector<std::shared_ptr<const follow::Agenda>> agendas;
  agendas.reserve(classes.size());
  for (const auto& [trace, plan] : classes) agendas.push_back(std::make_shared<const follow::Agenda>(trace, plan));
  return agendas;
}

}  // namespace

struct PagerRun::Parts {
  Parts(const std::vector<Class>& classes, const machine::Machine& on)
      : machine(on), granule(classes.front().trace.granule), binding(space, granule), plans(agendas_of(classes)) {}

  Block*& block_of(StorageId id) {
    if (blocks.size() <= index(id)) blocks.resize(index(id) + 1);
    return blocks[index(id)];
  }
  /// Creates a block that is claimed at once, as for a storage that exists from its birth on.
  Block& create(Bytes size) {
    Block& block = pager.storages().create(size);
    pager.storages().claim(block, &block);
    return block;
  }
  bool is_paged(Bytes bytes) const { return base::round_up(bytes, granule) >= base::kMinPagedBytes; }

  const machine::Machine& machine;
  Bytes granule;
  machine::Nanoseconds clock{0};
  VirtualQueues* queues = nullptr;  // the pager's
  arena::AddressSpace space;
  BookkeepingBinding binding;
  pager::Pager pager{space, binding, std::make_unique<pager::LruPolicy>()};
  follow::PlanSwitch plans;
  std::vector<Block*> blocks;  // by storage; null if it is not alive, or never paged
};

PagerRun::PagerRun(const std::vector<Class>& classes, const machine::Machine& machine)
    : parts_(std::make_unique<Parts>(classes, machine)) {
  const auto& [trace, plan] = classes.front();
  pager::Pager& pager = parts_->pager;
  auto queues = std::make_unique<VirtualQueues>(machine, parts_->clock);
  parts_->queues = queues.get();
  pager.start({.budget = plan.budget, .fuzz = {}}, std::move(queues));
  if (plan.slab > Bytes(0)) pager.storages().acquire_slab_chunk(plan.slab);
  // Entries without a row stay paged out throughout; they may be larger than the budget.
  std::vector<bool> has_row(trace.storages.size());
  for (const Class& one : classes)
    for (const plan::Row& row : one.plan.rows)
      if (row.storage != plan::kTemporary && index(row.storage) < has_row.size()) has_row[index(row.storage)] = true;
  for (std::uint32_t i = 0; i < trace.storages.size(); ++i) {
    if (!trace.storages[i].entry || !has_row[i]) continue;
    Block& block = parts_->create(trace.storages[i].bytes);
    parts_->block_of(StorageId{i}) = &block;
    for (std::size_t j = 0; j < classes.size(); ++j) parts_->plans.cursor(j).bind(StorageId{i}, block);
    pager.page_out_all();
  }
  // What the plan has in memory at the begin is paged in where the plan places it, and counts as clean at first; what
  // every window writes is dirty from the second one on.
  pager.following().follow(&parts_->plans);
  for (const plan::Row& row : plan.rows) {
    if (row.fill != plan::Fill::kBoundary) continue;
    pager::PinSet pins(pager, pager::Temporaries::kKeep);
    pins.see(*parts_->block_of(row.storage), Access::kRead);
    pins.admit();
  }
  parts_->clock = machine::Nanoseconds(0);
  parts_->queues->forget();
}

PagerRun::~PagerRun() {
  parts_->pager.following().follow(nullptr);
  for (Block* block : parts_->blocks)
    if (block != nullptr) parts_->pager.storages().destroy(*block);
  parts_->pager.stop();  // frees blocks that died while they were copied
}

pager::Statistics PagerRun::counts() { return parts_->pager.accounts().statistics(); }

void PagerRun::handle_transfers(Window& result) {
  const machine::Nanoseconds time = parts_->queues->take_handling();
  result.handled += time;
  parts_->clock += time;
}

void PagerRun::run_op(const trace::Trace& window, const trace::Op& op, Window& result) {
  plan::Prediction& measured = result.measured;
  pager::Pager& pager = parts_->pager;
  const auto bytes_of = [&](StorageId id) { return window.storages[index(id)].bytes; };
  {
    pager.boundaries().op_begins();
    pager::PinSet pins(pager, pager::Temporaries::kKeep);
    for (const StorageId id : op.reads)
      if (Block* block = parts_->block_of(id)) pins.see(*block, Access::kRead);
    for (const StorageId id : op.writes)
      if (Block* block = parts_->block_of(id)) pins.see(*block, Access::kWrite);
    pins.follow(base::name_hash(op.name));
    pins.admit();
    handle_transfers(result);
    for (const StorageId id : op.births)
      if (parts_->is_paged(bytes_of(id))) parts_->block_of(id) = &parts_->create(bytes_of(id));
    Block* temporary = parts_->is_paged(op.temporary) ? &pager.storages().create(op.temporary) : nullptr;
    measured.curve.push_back(pager.accounts().charged());
    measured.peak = std::max(measured.peak, measured.curve.back());
    const machine::Nanoseconds time = parts_->machine.time_of(op);
    measured.compute += time;
    parts_->clock += time;
    if (temporary != nullptr) pager.storages().destroy(*temporary);
  }
  for (const StorageId id : op.deaths)
    if (Block* block = std::exchange(parts_->block_of(id), nullptr)) pager.storages().destroy(*block);
}

PagerRun::Window PagerRun::run(const trace::Trace& window) {
  const machine::Nanoseconds begin = parts_->clock;
  const machine::Nanoseconds stalled_out = parts_->queues->stalled_for_page_outs();
  const machine::Nanoseconds stalled_in = parts_->queues->stalled_for_page_ins();
  const pager::Statistics before = counts();
  Window result;
  for (const trace::Op& op : window.ops) run_op(window, op, result);
  handle_transfers(result);
  const pager::Statistics after = counts();
  result.measured.step = parts_->clock - begin;
  result.measured.page_out = Bytes(after.page_out_bytes - before.page_out_bytes);
  result.measured.page_in = Bytes(after.page_in_bytes - before.page_in_bytes);
  result.stalled_for_page_outs = parts_->queues->stalled_for_page_outs() - stalled_out;
  result.stalled_for_page_ins = parts_->queues->stalled_for_page_ins() - stalled_in;
  result.followed_ops = after.followed_ops - before.followed_ops;
  result.misses = after.plan_misses - before.plan_misses;
  result.ops_as_planned = after.ops_as_planned - before.ops_as_planned;
  return result;
}

PagerRun::Window follow(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine) {
  PagerRun pager_run(trace, plan, machine);
  pager_run.run(trace);
  pager_run.run(trace);
  return pager_run.run(trace);
}

}  // namespace tensorpager::sim
