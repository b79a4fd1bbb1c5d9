// Finds what a program repeats, plans it, and activates the plan while the program runs.
//
//   recorded ops --> windows --> classes --> plans --> active from the next op on
//        ^ a sink of the session     (on a thread of its own, or on the program's)
//
// It looks for windows after the third step that an optimizer ends or the program marks, and then ever more rarely; if
// nothing marks steps, after so many ops. If the program does other than planned it looks again, and a plan that is
// hardly followed is cancelled. If it does as planned, the same windows are planned again from the times that were
// measured since, as long as that gains something.
//
// Recording costs a little of each op. So it pauses while the program does as planned, or fits into the budget, and
// resumes when that has changed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tensorpager/base/event_sink.h"
#include "tensorpager/follow/plan_switch.h"
#include "tensorpager/guide/profile.h"
#include "tensorpager/pager/pager.h"
#include "tensorpager/trace/recorder.h"

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
  }
};

class Guide final : public base::EventSink {
 public:
  struct Options {
    bool plans = true;    // false: only records
    bool waits = false;   // plans on the program's thread, at the same op in every run, and not in the background
    bool pauses = true;   // pauses recording when there is nothing to learn
    bool refines = true;  // plans again from the times measured under a plan
    std::optional<base::Bytes> granule = {};           // for recorded sizes; else the pager's
    std::size_t least_ops = std::size_t{1} << 12;      // ops that are remembered; more if steps or windows are longer
    std::function<void(const std::string&)> say = {};  // prints a line for people
    std::optional<plan::PlanCache> cache = {};         // of plans for later sessions, and from earlier ones
  };

  /// The pager must outlive it; and while it is the pager's sink, threads of the program may be in it.
  Guide(pager::Pager& pager, Options options);
  ~Guide() override;
  Guide(const Guide&) = delete;
  Guide& operator=(const Guide&) = delete;

  /// Follows these plans, of which nothing is known to have run, from the next op on. Makes no other plan before the
  /// program does other than planned for the most part.
  void activate_user_supplied(Profile given);
  /// Ends the plan, and makes no other. Call it between ops.
  void stop();
  Progress progress() const;  // takes the pager's lock
  bool plans() const { return options_.plans; }
  bool is_paused() const { return is_paused_; }
  trace::Stream stream() const { return recorder_.stream(); }

  Ticket op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept override;
  void op_touches(Ticket op, std::span<const base::Touch> touched) noexcept override {
    recorder_.op_touches(op, touched);
  }
  void op_ends(Ticket op, std::chrono::nanoseconds took) noexcept override { recorder_.op_ends(op, took); }
  void block_born(Ticket op, const base::NewBlock& block) noexcept override { recorder_.block_born(op, block); }
  void block_died(Ticket op, std::uint64_t number) noexcept override { recorder_.block_died(op, number); }
  void slab_grew(base::Bytes slab) noexcept override { recorder_.slab_grew(slab); }
  void hint(base::Hint hint) noexcept override;

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kFirstSteps = 3;  // fewer show no two equal: an optimizer makes its state in the first
  static constexpr std::uint64_t kFirstOps = 1024;  // if nothing marks steps

  void count();
  void look();
  void at_boundary();
  void work();
  bool is_for_another_thread();
  void request_analysis();
  bool follows_similar() const;
  void analyse_ever_more_rarely();
  void run_analysis();
  void keep(const Profile& profile) const;
  bool is_of_use(const Profile& found, const std::shared_ptr<const Profile>& known, const machine::Machine& machine);
  void begin();
  std::shared_ptr<const Profile> take_pending(bool& has_another);
  void activate(const std::shared_ptr<const Profile>& found, bool is_user_supplied = false);
  void start_following(const std::shared_ptr<const Profile>& found, bool is_user_supplied);
  void note_prediction(const ClassProfile& most, const plan::Prediction& predicted);
  void deactivate();
  void say(const std::string& line) const;
  void check();
  void reconsider();
  void pause_recording();
  void check_pause_later();
  void check_pause();
  void resume_recording();

  pager::Pager& pager_;
  const Options options_;
  std::atomic<std::uint64_t> window_ops_{0};  // of the newest plan's window
  trace::Recorder recorder_;
  std::atomic<std::uint64_t> ops_{0};    // ops that touched blocks
  std::atomic<std::uint64_t> steps_{0};  // steps that the program marked
  std::atomic<std::uint64_t> due_at_ops_;
  std::atomic<std::uint64_t> due_at_steps_;
  std::atomic<std::uint64_t> analyses_that_fit_{0};  // analyses in a row at which all was within the budget
  std::atomic<bool> is_paused_{false};
  std::atomic<bool> has_converged_{false};  // converged: planning again gains nothing

  mutable std::mutex mutex_;  // not held while the pager is called
  std::condition_variable changed_;
  std::thread worker_;
  bool is_wanted_ = false;     // an analysis is requested of the worker
  bool is_analysing_ = false;  // the worker analyses now
  bool is_over_ = false;
  std::shared_ptr<const Profile> pending_;  // made, and not active yet
  std::shared_ptr<const Profile> known_;    // that became active last
  std::thread::id follower_thread_;         // whose ops are followed; none: no plan is active
  std::uint64_t missed_boundaries_ = 0;     // boundaries in a row at which that thread was not there
  Progress progress_;
  struct Mark {
    std::uint64_t ops = 0;       // ops that touch a block
    std::uint64_t followed = 0;  // followed ops by the pager's count
    std::uint64_t missed = 0;    // missed ops, likewise
    std::uint64_t page_outs = 0;
    double paged = 0;     // seconds of paging in ops
    double computed = 0;  // seconds
  };
  Mark now() const;
  pager::TransferCosts followed_costs_;  // when a plan became active and none was
  Mark begun_;                           // when the newest plan became active
  Mark paused_;                          // when recording paused
  double paused_at_ = 0;                 // seconds
  std::uint64_t paused_ops_ = 0;         // during pauses that are over, as far as they are known
  double paused_computed_ = 0;           // seconds, likewise

  // For that thread only.
  std::unique_ptr<follow::PlanSwitch> follower_;  // the active plans
  std::uint64_t checked_ops_ = 0;                 // the figures at the last check
  std::uint64_t checked_followed_ = 0;
  std::uint64_t held_ = 0;         // checks in a row at which the plan held
  std::uint64_t dropped_ = 0;      // plans in a row that did not hold
  bool is_user_supplied_ = false;  // user-supplied: no other takes its place while it holds at all
  std::uint64_t refined_ = 0;      // times that a quicker plan replaced the active one
  std::uint64_t checks_ = 0;       // checks of active plans at which the program did other than planned, or may do
};

}  // namespace tensorpager::guide
