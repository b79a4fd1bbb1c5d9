// What plans achieve: figures since the newest became active, also over pauses in which no op is recorded.
#pragma once

#include <cstdint>
#include <optional>

#include "tensorpager/plan/plan.h"

namespace tensorpager::guide {

/// Results so far. Figures are of the newest plan for the class of windows that makes up most.
struct Progress {
  std::uint64_t plans = 0;  // plans that became active
  std::uint64_t window_ops = 0;
  std::uint64_t predicted_peak_bytes = 0;
  double predicted_window_seconds = 0;
  double predicted_overhead = 0;    // over a window's compute time
  double lower_bound_overhead = 0;  // a lower limit for any plan without recomputation
  double placement_waste = 0;       // the top of planned blocks and slabs, over the peak, minus 1
  // Since it became active, of all that the program did:
  double followed_share = 0;     // of the ops that touch a block
  double measured_overhead = 0;  // time that paging took of ops, over all other time
  // Of the program, with a plan or without:
  double step_seconds = 0;  // the median of its latest steps, nine at most; 0 if it tells of none

  template <typename Visit>
  void for_each(Visit&& visit) const {
    visit("plans", plans);
    visit("window_ops", window_ops);
    visit("predicted_peak_bytes", predicted_peak_bytes);
    visit("predicted_window_seconds", predicted_window_seconds);
    visit("predicted_overhead", predicted_overhead);
    visit("lower_bound_overhead", lower_bound_overhead);
    visit("placement_waste", placement_waste);
    visit("followed_share", followed_share);
    visit("measured_overhead", measured_overhead);
    visit("step_seconds", step_seconds);
  }
};

class ProgressMeter {
 public:
  /// A session's counts at one time. The recorder's stand still during a pause.
  struct Reading {
    std::uint64_t ops = 0;       // recorded ops that touch a block
    std::uint64_t followed = 0;  // followed ops by the pager's count
    std::uint64_t missed = 0;    // missed ops, likewise
    std::uint64_t page_outs = 0;
    double paged = 0;     // seconds of paging in ops
    double computed = 0;  // seconds, as recorded
    double at = 0;        // seconds on a clock
  };

  void plan_activated(const Reading& now, const plan::Plan& plan);
  /// Notes what the active plan predicts, at first or by newer op times.
  void predict(const plan::Prediction& predicted, std::optional<double> lower_bound_overhead);
  void recording_paused(const Reading& now) { paused_at_ = now; }
  void recording_resumed(const Reading& now);

  /// What happened since recording paused. Call it in a pause only.
  Reading since_pause(const Reading& now) const;
  Progress progress(const Reading& now) const;

 private:
  struct Unrecorded {
    std::uint64_t ops = 0;
    double computed = 0;  // seconds
  };
  Unrecorded unrecorded(const Reading& now) const;
  Reading whole(Reading now) const;

  Progress progress_;
  Reading activated_at_;  // with what was not recorded
  std::optional<Reading> paused_at_;
  Unrecorded earlier_;  // in pauses that are over
};

}  // namespace tensorpager::guide
