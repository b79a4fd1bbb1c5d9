// Finds what a program repeats, plans it, and activates the plan while the program runs.
//
//   recorded ops --> windows --> classes --> plans --> active from the next op on
//        ^ a sink of the session     (on a thread of its own, or on the program's)
//
// It records the program's ops, analyses the record when `AnalysisSchedule` says so, and activates what the analysis
// planned at the next boundary between two ops. `Adherence` judges the active plan; `Phase` says what goes on.
//
// Recording costs a little of each op. So it pauses while the program does as planned, or fits into the budget, and
// resumes when that has changed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/follow/plan_switch.h"
#include "tensorpager/guide/adherence.h"
#include "tensorpager/guide/analysis.h"
#include "tensorpager/guide/analysis_schedule.h"
#include "tensorpager/guide/analysis_worker.h"
#include "tensorpager/guide/phase.h"
#include "tensorpager/guide/profile.h"
#include "tensorpager/guide/progress_meter.h"
#include "tensorpager/guide/step_clock.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/plan/plan_cache.h"
#include "tensorpager/trace/recorder.h"

namespace tensorpager::guide {

class Guide final : public base::EventSink {
 public:
  struct Options {
    bool plans = true;                                               // false: only records
    base::Recomputation recomputation = base::Recomputation::kNone;  // of plans that replace others
    bool waits = false;   // plans on the program's thread, at the same op in every run, and not in the background
    bool pauses = true;   // pauses recording when there is nothing to learn
    bool refines = true;  // plans again from the times measured under a plan
    std::optional<base::Bytes> granule = {};       // for recorded sizes; else the pager's
    std::size_t least_ops = std::size_t{1} << 12;  // ops that are remembered; more if steps or windows are longer
    std::function<void(const std::string&)> say = [](const std::string&) {};  // prints a line for people
    std::function<void()> before_replays = [] {};  // called before a plan with replays becomes active
    std::optional<plan::PlanCache> cache = {};     // of plans for later sessions, and from earlier ones
  };

  /// The pager must outlive it; and while it is the pager's sink, threads of the program may be in it.
  Guide(pager::Pager& pager, Options options);
  ~Guide() override;
  Guide(const Guide&) = delete;
  Guide& operator=(const Guide&) = delete;

  /// Follows these plans, of which nothing is known to have run, from the next op on. Makes no other plan before the
  /// program does other than planned for the most part. Call it before there are any plans.
  void activate_user_supplied(Profile profile);
  /// Deactivates the plan, and makes no other. Call it between ops.
  void stop();
  Progress progress() const;  // takes the pager's lock
  bool plans() const { return options_.plans; }
  bool is_recording_paused() const;
  trace::Stream stream() const { return recorder_.stream(); }

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override;
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override {
    recorder_.op_touches(op, touched);
  }
  Ticket op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override { return recorder_.op_ends(op, took); }
  void op_timed(Ticket op, std::chrono::nanoseconds took) noexcept override { recorder_.op_timed(op, took); }
  void block_born(Ticket op, const base::NewBlock& block) noexcept override { recorder_.block_born(op, block); }
  void block_died(Ticket op, std::uint64_t number) noexcept override { recorder_.block_died(op, number); }
  void slab_grew(base::Bytes slab) noexcept override { recorder_.slab_grew(slab); }
  void hint(base::Hint hint) noexcept override;

 private:
  static constexpr std::uint64_t kOpsOfPause = 4096;  // of any kind, between two checks whether a pause is over

  void call_at_boundary(void (Guide::*task)(), std::uint64_t after_ops = 0);
  void at_boundary();
  bool is_on_followed_thread();
  /// On a device all threads are one program: backward passes run on a thread of the engine, others wait for it.
  std::thread::id this_thread() const { return pager_.is_on_device() ? std::thread::id() : std::this_thread::get_id(); }
  void request_analysis();
  void run_analysis();
  void note_none(NoProfile reason);
  bool is_of_use(const Profile& found, const std::shared_ptr<const Profile>& known, const machine::Machine& machine);
  void activate_pending();
  void activate(const std::shared_ptr<const Profile>& profile);
  void note_active(const std::shared_ptr<const Profile>& profile);
  void deactivate();
  void check();
  void pause_recording();
  void check_pause();

  pager::Pager& pager_;
  const Options options_;
  trace::Recorder recorder_;
  std::atomic<std::uint64_t> ops_{0};  // recorded ops that touch a block
  mutable std::mutex mutex_;           // guards what follows up to `costs_before_`; not held while the pager is called
  Phase phase_ = Phase::kLearning;
  AnalysisSchedule schedule_;
  Adherence adherence_;
  ProgressMeter meter_;
  StepClock step_clock_;
  std::shared_ptr<const Profile> pending_;        // made, and not active yet
  std::shared_ptr<const Profile> known_;          // that became active last
  pager::TransferCosts costs_before_;             // when a plan became active and none was
  std::unique_ptr<follow::PlanSwitch> follower_;  // of the active plans; used at boundaries only
  AnalysisWorker worker_;
};

}  // namespace tensorpager::guide
