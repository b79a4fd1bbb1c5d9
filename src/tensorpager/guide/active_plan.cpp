// The active plan: checks, keeps or cancels it, pauses recording, and reports its results.
#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "tensorpager/base/clock.h"
#include "tensorpager/guide/guide.h"

namespace tensorpager::guide {
namespace {

constexpr std::uint64_t kCheckWindows = 4;
constexpr std::uint64_t kChecksBeforePause = 2;  // at which the plan was followed
constexpr std::uint64_t kOpsOfPause = 4096;      // of any kind, between two checks whether the pause is over
constexpr std::uint64_t kMostDropped = 16;       // each doubles the time until the next analysis
constexpr std::uint64_t kMostRefined = 3;        // times that an active plan is replaced by a quicker one
// Shares of the ops between two checks. Below the first there may be more to learn, below the second a plan is
// cancelled.
constexpr double kMostFollowed = 0.95;
constexpr double kLeastFollowed = 0.3;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max(whole, std::uint64_t{1}));
}

}  // namespace

/// If it fails the program continues on demand.
void Guide::activate(const std::shared_ptr<const Profile>& found, bool is_user_supplied) {
  try {
    start_following(found, is_user_supplied);
  } catch (const std::exception& error) {
    deactivate();
    say(std::string("no plan: ") + error.what());
  }
}

/// `is_user_supplied`: followed from the begin of some window on, which the follower finds.
void Guide::start_following(const std::shared_ptr<const Profile>& found, bool is_user_supplied) {
  const Profile& profile = *found;
  const trace::Stream stream = recorder_.stream();
  std::vector<std::shared_ptr<const follow::Agenda>> agendas;
  agendas.reserve(profile.classes.size());
  for (const ClassProfile& one : profile.classes) agendas.push_back(one.agenda);
  auto follower = std::make_unique<follow::PlanSwitch>(agendas);
  bool is_there = is_user_supplied;
  pager_.follow(follower.get(), [&](const auto& blocks) {
    if (!is_user_supplied) is_there = catch_up(*follower, profile, stream, blocks);
  });
  if (!is_there) return deactivate();
  follower_ = std::move(follower);
  checked_ops_ = ops_;
  checked_followed_ = pager_.account().followed_ops;
  held_ = 0;
  is_user_supplied_ = is_user_supplied;
  const ClassProfile& most = profile.classes.front();
  const plan::Plan& plan = most.agenda->plan();
  window_ops_ = plan.ops;
  due_at_ops_ = ops_ + kCheckWindows * plan.ops;
  due_at_steps_ = kNever;
  const Mark begun = now();
  const pager::TransferCosts costs = pager_.transfer_costs();
  bool is_again = false;
  {
    const std::lock_guard lock(mutex_);
    begun_ = begun;
    is_again = follower_thread_ != std::thread::id();
    if (!is_again) followed_costs_ = costs;
    follower_thread_ = profile.thread;
    known_ = found;
    missed_boundaries_ = 0;
    ++progress_.plans;
    progress_.window_ops = plan.ops;
    progress_.placement_waste = ratio((plan.top() + plan.slab).count(), plan.predicted.peak.count()) - 1;
    note_prediction(most, most.predicted());
  }
  if (!is_again)
    reconsider();  // earlier analyses were of no plan
  else if (++refined_ >= kMostRefined)
    has_converged_ = true;
  const char* const how = is_user_supplied  ? "user-supplied plan: "
                          : profile.is_kept ? "plan from the cache: "
                          : is_again        ? "plan rebuilt: "
                                            : "plan active: ";
  say(how + profile.describe());
}

/// Call it with the mutex held.
void Guide::note_prediction(const ClassProfile& most, const plan::Prediction& predicted) {
  progress_.predicted_peak_bytes = predicted.peak.count();
  progress_.predicted_window_seconds = std::chrono::duration<double>(predicted.step).count();
  progress_.predicted_overhead = overhead_of(predicted);
  progress_.lower_bound_overhead = most.lower_bound_overhead.value_or(0);
}

/// Call it on the followed thread.
void Guide::deactivate() {
  pager_.follow(nullptr);
  follower_.reset();
  const std::lock_guard lock(mutex_);
  follower_thread_ = {};
}

void Guide::say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

/// Whether the program does as planned.
void Guide::check() {
  const std::uint64_t ops = ops_, followed = pager_.account().followed_ops;
  const double share = ratio(followed - checked_followed_, ops - checked_ops_);
  checked_ops_ = ops;
  checked_followed_ = followed;
  due_at_ops_ = ops + kCheckWindows * window_ops_;
  if (share >= kMostFollowed) {
    dropped_ = 0;
    ++held_;
    if (!has_converged_) return request_analysis();
    if (follows_similar()) return analyse_ever_more_rarely();  // the next windows may differ from all that came
    if (held_ >= kChecksBeforePause) pause_recording();
    return;
  }
  held_ = 0;
  if (share < kLeastFollowed) {
    deactivate();
    is_user_supplied_ = false;
    reconsider();
    // Ops of several threads together may look as if they repeated, time and again.
    dropped_ = std::min(dropped_ + 1, kMostDropped);
    due_at_ops_ = ops + (ops << dropped_) / 4;
    due_at_steps_ = steps_ + (kFirstSteps << dropped_) / 2;
    return say("plan dropped: the program no longer does what was planned; it is being profiled again");
  }
  if (!is_user_supplied_) analyse_ever_more_rarely();  // its other ops may never repeat
}

bool Guide::follows_similar() const {
  const std::lock_guard lock(mutex_);
  return known_->has_similar();
}

/// Analyses at the first such check, the second, the fourth, the eighth.
void Guide::analyse_ever_more_rarely() {
  if (std::has_single_bit(++checks_)) request_analysis();
}

/// Another plan may gain something by what the program does now.
void Guide::reconsider() {
  refined_ = 0;
  has_converged_ = is_user_supplied_ || !options_.refines;
}

/// Pauses recording until `resume_recording`. Call it between ops.
void Guide::pause_recording() {
  if (!options_.pauses || is_paused_) return;
  {
    const Mark mark = now();
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    paused_ = mark;
    paused_at_ = base::seconds_now();
    is_paused_ = true;
  }
  pager_.set_sink(nullptr);
  check_pause_later();
}

void Guide::check_pause_later() {
  pager_.call_at_boundary([this] { check_pause(); }, kOpsOfPause);
}

/// Ends the pause if the program does other than planned, or no longer fits.
void Guide::check_pause() {
  const pager::Account account = pager_.account();
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    const std::uint64_t followed = account.followed_ops - paused_.followed;
    const std::uint64_t missed = account.plan_misses - paused_.missed;
    is_over = follower_thread_ != std::thread::id() ? ratio(followed, followed + missed) < kMostFollowed
                                                    : account.page_outs != paused_.page_outs;
  }
  if (!is_over) return check_pause_later();
  resume_recording();
}

void Guide::resume_recording() {
  const Mark mark = now();
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    paused_ops_ += mark.ops - paused_.ops;
    paused_computed_ += mark.computed - paused_.computed;
    is_paused_ = false;
  }
  analyses_that_fit_ = 0;
  reconsider();
  recorder_.restart();
  pager_.set_sink(this);
  held_ = 0;
  checked_ops_ = ops_;
  checked_followed_ = mark.followed;
  due_at_ops_ = ops_ + (window_ops_ > 0 ? kCheckWindows * window_ops_ : kFirstOps);
  if (due_at_steps_ != kNever) due_at_steps_ = steps_ + kFirstSteps;
}

Guide::Mark Guide::now() const {
  const pager::Account account = pager_.account();
  Mark mark{.ops = ops_,
            .followed = account.followed_ops,
            .missed = account.plan_misses,
            .page_outs = account.page_outs,
            .paged = account.paging_seconds,
            .computed = std::chrono::duration<double>(recorder_.op_time()).count()};
  const std::lock_guard lock(mutex_);
  mark.ops += paused_ops_;
  mark.computed += paused_computed_;
  if (is_paused_) {
    // Ops are those that the plan knows, and all time that is not paging counts as compute.
    mark.ops += mark.followed - paused_.followed + mark.missed - paused_.missed;
    mark.computed += base::seconds_now() - paused_at_ - (mark.paged - paused_.paged);
  }
  return mark;
}

Progress Guide::progress() const {
  const Mark mark = now();
  const std::lock_guard lock(mutex_);
  Progress progress = progress_;
  if (progress.plans == 0) return progress;
  const std::uint64_t followed = mark.followed - begun_.followed;
  // Allocations outside ops are followed, and are no ops.
  const std::uint64_t ops = std::max(mark.ops - begun_.ops, followed + mark.missed - begun_.missed);
  progress.followed_share = ratio(followed, ops);
  const double computed = mark.computed - begun_.computed;
  progress.measured_overhead = computed > 0 ? (mark.paged - begun_.paged) / computed : 0;
  return progress;
}

}  // namespace tensorpager::guide
