#include "tensorpager/pager/accounts.h"

#include "tensorpager/arena/mappings.h"

namespace tensorpager::pager {

using base::Bytes;

Statistics Accounts::statistics() {
  const Lock lock(core_.mutex);
  const arena::Ledger& ledger = core_.ledger();
  const BlockTable& table = core_.table;
  const transfer::Queues* const queues = core_.transfers.queues();
  Statistics s = core_.counts;
  s.budget_bytes = ledger.budget().count();
  s.peak_bytes = ledger.peak().count();
  s.need_bytes = ledger.need().count();
  s.floor_bytes = core_.floor.bytes().count();
  s.over_budget_bytes = ledger.over().count();
  s.live_bytes = ledger.live().count();
  s.resident_bytes = ledger.resident().count();
  s.slab_bytes = ledger.slabs().count();
  s.spill_bytes = queues != nullptr ? queues->reserved().count() : 0;
  s.pinned_bytes = queues != nullptr ? queues->pinned().count() : 0;
  s.ops = core_.clock - core_.first_op;
  s.live_blocks = table.live();
  s.records = core_.pins.records();
  for (std::size_t i = 0; i < table.residents(); ++i) s.pins += (table.resident(i).state() & kPinMask) != 0 ? 1 : 0;
  s.export_bytes = core_.floor.exports().count();
  s.mappings = arena::Mappings::count_now();
  s.system_calls = core_.binding.system_calls();
  if (const PageMover* const mover = core_.binding.page_mover()) {
    s.pooled_bytes = mover->pooled().count();
    s.populated_bytes = mover->populated().count();
  }
  core_.executor.count_followed(s);
  s.handling_seconds = s.page_out_handling_seconds + s.page_in_handling_seconds;
  s.stall_seconds = s.page_out_stall_seconds + s.page_in_stall_seconds;
  s.paging_seconds = paging_seconds();
  return s;
}

double Accounts::paging_seconds() const {
  return static_cast<double>(core_.paging_nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

Account Accounts::account() {
  const Lock lock(core_.mutex);
  Statistics s = core_.counts;
  core_.executor.count_followed(s);
  return {.page_outs = s.page_outs + s.clean_drops,
          .followed_ops = s.followed_ops,
          .plan_misses = s.plan_misses,
          .paging_seconds = paging_seconds()};
}

Bytes Accounts::charged() {
  const Lock lock(core_.mutex);
  return core_.ledger().charged();
}

Accounts::Charges Accounts::charges() {
  const Lock lock(core_.mutex);
  const arena::Ledger& ledger = core_.ledger();
  return {ledger.budget(), ledger.charged(), ledger.recent_peak(), core_.table.live()};
}

void Accounts::forget_peak() {
  const Lock lock(core_.mutex);
  core_.table.forget_recent_peak();
}

TransferCosts Accounts::transfer_costs() {
  const Lock lock(core_.mutex);
  const Statistics& counts = core_.counts;
  const transfer::Queues* const queues = core_.transfers.queues();
  // The host runs ahead of a device, so its own time delays no op there.
  const double counted = core_.is_on_device() ? 0 : 1;
  return {
      .rates = queues != nullptr ? queues->rates() : transfer::Queues::Rates(),
      .page_out = {counted * counts.page_out_handling_seconds, counts.page_outs + counts.clean_drops + counts.drops},
      .page_in = {counted * counts.page_in_handling_seconds, counts.page_ins + counts.rebuilds},
      .rest = counted * (paging_seconds() - counts.seconds_of_transfers() - counts.replay_seconds)};
}

std::vector<Curve::Point> Accounts::curve() {
  const Lock lock(core_.mutex);
  return core_.curve ? core_.curve->points() : std::vector<Curve::Point>();
}

}  // namespace tensorpager::pager
