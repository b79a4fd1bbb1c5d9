// Reads the pager's counters.
#include "tensorpager/arena/mappings.h"
#include "tensorpager/pager/lock.h"
#include "tensorpager/pager/pager.h"

namespace tensorpager::pager {

using base::Bytes;

Statistics Pager::statistics() {
  const Lock lock(*this);
  Statistics s = counts_;
  s.budget_bytes = ledger_.budget().count();
  s.peak_bytes = ledger_.peak().count();
  s.need_bytes = ledger_.need().count();
  s.floor_bytes = floor_;
  s.over_budget_bytes = ledger_.over().count();
  s.live_bytes = ledger_.live().count();
  s.resident_bytes = ledger_.resident().count();
  s.slab_bytes = ledger_.slabs().count();
  s.spill_bytes = transfers_.queues() != nullptr ? transfers_.queues()->reserved().count() : 0;
  s.pinned_bytes = transfers_.queues() != nullptr ? transfers_.queues()->pinned().count() : 0;
  s.ops = clock_ - first_op_;
  s.live_blocks = table_.live();
  s.records = records_;
  for (std::size_t i = 0; i < table_.residents(); ++i) s.pins += (table_.resident(i).state() & kPinMask) != 0 ? 1 : 0;
  s.export_bytes = export_bytes_;
  s.mappings = arena::Mappings::count_now();
  s.system_calls = binding_.system_calls();
  if (const PageMover* const mover = binding_.page_mover()) {
    s.pooled_bytes = mover->pooled().count();
    s.populated_bytes = mover->populated().count();
  }
  count_followed(s);
  s.handling_seconds = s.page_out_handling_seconds + s.page_in_handling_seconds;
  s.stall_seconds = s.page_out_stall_seconds + s.page_in_stall_seconds;
  s.paging_seconds = paging_seconds();
  return s;
}

double Pager::paging_seconds() const {
  return static_cast<double>(paging_nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
}

void Pager::count_followed(Statistics& counts) const {
  if (executor_.source() == nullptr) return;
  counts.followed_ops += executor_.source()->followed_ops();
  counts.resized_ops += executor_.source()->resized_ops();
  counts.plan_misses += executor_.source()->misses();
}

Account Pager::account() {
  const Lock lock(*this);
  Statistics s = counts_;
  count_followed(s);
  return {.page_outs = s.page_outs + s.clean_drops,
          .followed_ops = s.followed_ops,
          .plan_misses = s.plan_misses,
          .paging_seconds = paging_seconds()};
}

Bytes Pager::charged() {
  const Lock lock(*this);
  return ledger_.charged();
}

Pager::Charges Pager::charges() {
  const Lock lock(*this);
  return {ledger_.budget(), ledger_.charged(), ledger_.recent_peak(), table_.live()};
}

void Pager::forget_peak() {
  const Lock lock(*this);
  table_.forget_recent_peak();
}

TransferCosts Pager::transfer_costs() {
  const Lock lock(*this);
  // The host runs ahead of a device, so its own time delays no op there.
  const double counted = transfers_.order().is_on_device() ? 0 : 1;
  return {.rates = transfers_.queues() != nullptr ? transfers_.queues()->rates() : transfer::Queues::Rates(),
          .page_out = {counted * counts_.page_out_handling_seconds,
                       counts_.page_outs + counts_.clean_drops + counts_.drops},
          .page_in = {counted * counts_.page_in_handling_seconds, counts_.page_ins + counts_.rebuilds},
          .rest = counted * (paging_seconds() - counts_.seconds_of_transfers() - counts_.replay_seconds)};
}

std::vector<Curve::Point> Pager::curve() {
  const Lock lock(*this);
  return curve_ ? curve_->points() : std::vector<Curve::Point>();
}

}  // namespace tensorpager::pager
