#include "tensorpager/guide/analysis_schedule.h"

#include <algorithm>

namespace tensorpager::guide {

bool AnalysisSchedule::count_ops(std::uint64_t ops) {
  if (!may_be_due(ops)) return false;
  next_op_ = ops + ops / 4;
  return pace_ == Pace::kByOps || (pace_ == Pace::kBySteps && steps_ == 0);
}

bool AnalysisSchedule::count_step() {
  ++steps_;
  if (pace_ != Pace::kBySteps || steps_ < next_step_) return false;
  next_step_ = steps_ + 1 + steps_ / 4;
  return true;
}

void AnalysisSchedule::plan_activated(std::uint64_t ops, std::uint64_t window_ops) {
  pace_ = Pace::kByOps;
  window_ops_ = window_ops;
  missed_boundaries_ = 0;
  plan_checked(ops);
}

void AnalysisSchedule::plan_checked(std::uint64_t ops) { next_op_ = ops + kCheckWindows * window_ops_; }

void AnalysisSchedule::plan_dropped(std::uint64_t ops, std::uint64_t drops) {
  const std::uint64_t doublings = std::min(drops, kMostDoublings);
  pace_ = Pace::kBySteps;
  next_op_ = ops + (ops << doublings) / 4;
  next_step_ = steps_ + (kFirstSteps << doublings) / 2;
}

void AnalysisSchedule::recording_resumed(std::uint64_t ops) {
  fits_ = 0;
  next_op_ = ops + (window_ops_ > 0 ? kCheckWindows * window_ops_ : kFirstOps);
  next_step_ = steps_ + kFirstSteps;
}

}  // namespace tensorpager::guide
