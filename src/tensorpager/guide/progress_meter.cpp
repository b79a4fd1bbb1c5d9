#include "tensorpager/guide/progress_meter.h"

#include <algorithm>
#include <chrono>

#include "tensorpager/base/errors.h"
#include "tensorpager/plan/timing.h"

namespace tensorpager::guide {
namespace {

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max(whole, std::uint64_t{1}));
}

}  // namespace

void ProgressMeter::plan_activated(const Reading& now, const plan::Plan& plan) {
  activated_at_ = whole(now);
  ++progress_.plans;
  progress_.window_ops = plan.ops;
  progress_.placement_waste = ratio((plan.top() + plan.slab).count(), plan.predicted.peak.count()) - 1;
}

void ProgressMeter::predict(const plan::Prediction& predicted, std::optional<double> lower_bound_overhead) {
  progress_.predicted_peak_bytes = predicted.peak.count();
  progress_.predicted_window_seconds = std::chrono::duration<double>(predicted.step).count();
  progress_.predicted_overhead = plan::overhead_of(predicted.step, predicted.compute);
  progress_.lower_bound_overhead = lower_bound_overhead.value_or(0);
}

void ProgressMeter::recording_resumed(const Reading& now) {
  const Unrecorded here = unrecorded(now);
  earlier_ = {.ops = earlier_.ops + here.ops, .computed = earlier_.computed + here.computed};
  paused_at_.reset();
}

ProgressMeter::Reading ProgressMeter::since_pause(const Reading& now) const {
  TENSORPAGER_CHECK(paused_at_.has_value());
  return {.ops = now.ops - paused_at_->ops,
          .followed = now.followed - paused_at_->followed,
          .missed = now.missed - paused_at_->missed,
          .page_outs = now.page_outs - paused_at_->page_outs,
          .paged = now.paged - paused_at_->paged,
          .computed = now.computed - paused_at_->computed,
          .at = now.at - paused_at_->at};
}

/// During this pause. Ops are those that the plan knows, and all time that is not paging counts as compute.
ProgressMeter::Unrecorded ProgressMeter::unrecorded(const Reading& now) const {
  if (!paused_at_) return {};
  const Reading since = since_pause(now);
  return {.ops = since.followed + since.missed, .computed = since.at - since.paged};
}

/// The reading with what was not recorded.
ProgressMeter::Reading ProgressMeter::whole(Reading now) const {
  const Unrecorded here = unrecorded(now);
  now.ops += earlier_.ops + here.ops;
  now.computed += earlier_.computed + here.computed;
  return now;
}

Progress ProgressMeter::progress(const Reading& now) const {
  Progress progress = progress_;
  if (progress.plans == 0) return progress;
  const Reading total = whole(now);
  const std::uint64_t followed = total.followed - activated_at_.followed;
  // Allocations outside ops are followed, and are no ops.
  const std::uint64_t ops = std::max(total.ops - activated_at_.ops, followed + total.missed - activated_at_.missed);
  progress.followed_share = ratio(followed, ops);
  const double computed = total.computed - activated_at_.computed;
  progress.measured_overhead = computed > 0 ? (total.paged - activated_at_.paged) / computed : 0;
  return progress;
}

}  // namespace tensorpager::guide
