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
constexpr std::uint64_t kChecksBeforeRest = 2;  // at which the plan was followed
constexpr std::uint64_t kOpsOfRest = 4096;      // of any kind, between two checks whether the pause is over
constexpr std::uint64_t kMostTakenBack = 16;    // each doubles the time until the next analysis
constexpr std::uint64_t kMostRefined = 3;       // times that an active plan is replaced by a quicker one
// Shares of the ops between two checks. Below the first there may be more to learn, below the second a plan is
// cancelled.
constexpr double kMostFollowed = 0.95;
constexpr double kLeastFollowed = 0.3;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max(whole, std::uint64_t{1}));
}

}  // namespace

/// If it fails the program continues on demand.
void Guide::put_in_force(const std::shared_ptr<const Lesson>& learned, bool is_given) {
  try {
    begin_to_follow(learned, is_given);
  } catch (const std::exception& error) {
    let_go();
    say(std::string("no plan: ") + error.what());
  }
}

/// `is_given`: followed from the begin of some window on, which the follower finds.
void Guide::begin_to_follow(const std::shared_ptr<const Lesson>& learned, bool is_given) {
  const Lesson& lesson = *learned;
  const trace::Stream stream = recorder_.stream();
  std::vector<std::shared_ptr<const follow::Agenda>> agendas;
  agendas.reserve(lesson.classes.size());
  for (const ClassLesson& one : lesson.classes) agendas.push_back(one.agenda);
  auto follower = std::make_unique<follow::PlanSwitch>(agendas);
  bool is_there = is_given;
  pager_.follow(follower.get(), [&](const auto& blocks) {
    if (!is_given) is_there = catch_up(*follower, lesson, stream, blocks);
  });
  if (!is_there) return let_go();
  follower_ = std::move(follower);
  checked_ops_ = ops_;
  checked_followed_ = pager_.account().followed_ops;
  held_ = 0;
  is_given_ = is_given;
  const ClassLesson& most = lesson.classes.front();
  const plan::Plan& plan = most.agenda->plan();
  window_ops_ = plan.ops;
  look_at_ops_ = ops_ + kCheckWindows * plan.ops;
  look_at_steps_ = kNever;
  const Mark begun = now();
  const pager::TransferCosts costs = pager_.transfer_costs();
  bool is_again = false;
  {
    const std::lock_guard lock(mutex_);
    begun_ = begun;
    is_again = follower_thread_ != std::thread::id();
    if (!is_again) followed_costs_ = costs;
    follower_thread_ = lesson.thread;
    known_ = learned;
    missed_looks_ = 0;
    ++progress_.plans;
    progress_.window_ops = plan.ops;
    progress_.placement_waste = ratio((plan.top() + plan.slab).count(), plan.predicted.peak.count()) - 1;
    note_prediction(most, most.predicted());
  }
  if (!is_again)
    unsettle();  // earlier analyses were of no plan
  else if (++refined_ >= kMostRefined)
    is_settled_ = true;
  const char* const how = is_given         ? "user-supplied plan: "
                          : lesson.is_kept ? "plan from the cache: "
                          : is_again       ? "plan rebuilt: "
                                           : "plan active: ";
  say(how + lesson.describe());
}

/// Call it with the mutex held.
void Guide::note_prediction(const ClassLesson& most, const plan::Prediction& predicted) {
  progress_.predicted_peak_bytes = predicted.peak.count();
  progress_.predicted_window_seconds = std::chrono::duration<double>(predicted.step).count();
  progress_.predicted_overhead = overhead_of(predicted);
  progress_.lower_bound_overhead = most.lower_bound_overhead.value_or(0);
}

/// Call it on the followed thread.
void Guide::let_go() {
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
  look_at_ops_ = ops + kCheckWindows * window_ops_;
  if (share >= kMostFollowed) {
    taken_back_ = 0;
    ++held_;
    if (!is_settled_) return learn_more();
    if (follows_alike()) return learn_ever_more_rarely();  // the next windows may differ from all that came
    if (held_ >= kChecksBeforeRest) rest();
    return;
  }
  held_ = 0;
  if (share < kLeastFollowed) {
    let_go();
    is_given_ = false;
    unsettle();
    // Ops of several threads together may look as if they repeated, time and again.
    taken_back_ = std::min(taken_back_ + 1, kMostTakenBack);
    look_at_ops_ = ops + (ops << taken_back_) / 4;
    look_at_steps_ = steps_ + (kFirstSteps << taken_back_) / 2;
    return say("plan dropped: the program no longer does what was planned; it is being profiled again");
  }
  if (!is_given_) learn_ever_more_rarely();  // its other ops may never repeat
}

bool Guide::follows_alike() const {
  const std::lock_guard lock(mutex_);
  return known_->has_alike();
}

/// Analyses at the first such check, the second, the fourth, the eighth.
void Guide::learn_ever_more_rarely() {
  if (std::has_single_bit(++checks_)) learn_more();
}

/// Another plan may gain something by what the program does now.
void Guide::unsettle() {
  refined_ = 0;
  is_settled_ = is_given_ || !options_.refines;
}

/// Pauses recording until `wake`. Call it between ops.
void Guide::rest() {
  if (!options_.rests || is_resting_) return;
  {
    const Mark mark = now();
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    rested_ = mark;
    rested_at_ = base::seconds_now();
    is_resting_ = true;
  }
  pager_.set_sink(nullptr);
  rest_on();
}

void Guide::rest_on() {
  pager_.call_at_boundary([this] { at_rest(); }, kOpsOfRest);
}

/// Ends the pause if the program does other than planned, or no longer fits.
void Guide::at_rest() {
  const pager::Account account = pager_.account();
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    const std::uint64_t followed = account.followed_ops - rested_.followed;
    const std::uint64_t missed = account.plan_misses - rested_.missed;
    is_over = follower_thread_ != std::thread::id() ? ratio(followed, followed + missed) < kMostFollowed
                                                    : account.page_outs != rested_.page_outs;
  }
  if (!is_over) return rest_on();
  wake();
}

void Guide::wake() {
  const Mark mark = now();
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    rested_ops_ += mark.ops - rested_.ops;
    rested_computed_ += mark.computed - rested_.computed;
    is_resting_ = false;
  }
  looks_that_fit_ = 0;
  unsettle();
  recorder_.restart();
  pager_.set_sink(this);
  held_ = 0;
  checked_ops_ = ops_;
  checked_followed_ = mark.followed;
  look_at_ops_ = ops_ + (window_ops_ > 0 ? kCheckWindows * window_ops_ : kFirstOps);
  if (look_at_steps_ != kNever) look_at_steps_ = steps_ + kFirstSteps;
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
  mark.ops += rested_ops_;
  mark.computed += rested_computed_;
  if (is_resting_) {
    // Ops are those that the plan knows, and all time that is not paging counts as compute.
    mark.ops += mark.followed - rested_.followed + mark.missed - rested_.missed;
    mark.computed += base::seconds_now() - rested_at_ - (mark.paged - rested_.paged);
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
