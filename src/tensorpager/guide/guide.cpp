#include "tensorpager/guide/guide.h"

#include <signal.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "tensorpager/base/clock.h"

namespace tensorpager::guide {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kFirstSteps = 3;   // fewer show no two alike: an optimizer makes its state in the first
constexpr std::uint64_t kFirstOps = 1024;  // where nothing tells steps
constexpr std::uint64_t kCheckWindows = 4;
constexpr std::uint64_t kChecksBeforeRest = 2;  // at which the plan held
constexpr std::uint64_t kLooksBeforeRest = 2;   // at which all fitted
constexpr std::uint64_t kOpsOfRest = 4096;      // of any kind, between two looks at whether it is over
constexpr std::uint64_t kMostMissedLooks =
    1000;                                     // after so many ops of other threads the one that is followed has ended
constexpr std::uint64_t kMostTakenBack = 16;  // each doubles the time until the next look
constexpr std::size_t kMostOps = std::size_t{1} << 17;  // that are remembered
// Six steps, and as many ops again that touch nothing yet.
constexpr std::uint64_t kOpsOfStep = 12;
// Of the ops between two checks. Below the first there may be more to learn, below the second a plan is taken back.
constexpr double kMostFollowed = 0.95;
constexpr double kLeastFollowed = 0.3;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max(whole, std::uint64_t{1}));
}

}  // namespace

Guide::Guide(pager::Pager& pager, Options options)
    : pager_(pager),
      options_(std::move(options)),
      recorder_(pager.charge_for(base::Bytes(1)), options_.least_ops,
                pager.is_placed() ? trace::Recorder::Temporaries::kInOnePiece : trace::Recorder::Temporaries::kApart),
      look_at_ops_(options_.plans ? kFirstOps : kNever),
      look_at_steps_(options_.plans ? kFirstSteps : kNever) {}

base::EventSink::Ticket Guide::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  if (!touched.empty()) count();
  return recorder_.op_begins(facts, touched);
}

void Guide::count() {
  const std::uint64_t ops = ops_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ops < look_at_ops_.load(std::memory_order_relaxed)) return;
  look_at_ops_ = ops + ops / 4;
  const bool is_followed = look_at_steps_ == kNever;
  if (is_followed || steps_ == 0) look();
}

void Guide::hint(base::Hint hint) noexcept {
  recorder_.hint(hint);
  if (hint == base::Hint::kOptimizerBegins) return;
  const std::uint64_t steps = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (is_resting_) return;
  if (steps <= kFirstSteps) recorder_.keep(std::min(kMostOps, kOpsOfStep * ops_ / steps));
  if (steps < look_at_steps_.load(std::memory_order_relaxed)) return;
  look_at_steps_ = steps + 1 + steps / 4;
  look();
}

/// Where the program's next op begins; nothing is under way there.
void Guide::look() {
  pager_.call_at_boundary([this] { at_boundary(); });
}

void Guide::at_boundary() {
  if (is_resting_) return rest_on();  // it took the place of the look at whether the rest is over
  bool is_followed = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_followed = follower_thread_ != std::thread::id();
  }
  if (!is_followed) return learn_more();
  if (!is_for_another_thread()) check();
}

/// Where another thread's op was first, it is tried again at the next; a plan for a thread that has ended is let go.
bool Guide::is_for_another_thread() {
  bool has_ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (follower_thread_ == std::this_thread::get_id()) {
      missed_looks_ = 0;
      return false;
    }
    has_ended = ++missed_looks_ > kMostMissedLooks;
    if (has_ended) follower_thread_ = {};
  }
  if (has_ended) pager_.follow(nullptr);
  look();
  return true;
}

void Guide::learn_more() {
  if (options_.waits) {
    study();
    return begin();
  }
  const std::lock_guard lock(mutex_);
  is_wanted_ = true;
  if (worker_.joinable()) return changed_.notify_all();
  // The program's signals are for its own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    look_at_ops_ = look_at_steps_ = kNever;  // no thread, no plan: on demand it goes on
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Guide::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_wanted_ || is_over_; });
      if (is_over_) return;
      is_wanted_ = false;
    }
    study();
    pager_.call_at_boundary([this] { begin(); });
  }
}

/// Where it fails the program goes on on demand.
void Guide::study() {
  try {
    const trace::Stream stream = recorder_.stream();
    std::shared_ptr<const Lesson> known;
    {
      const std::lock_guard lock(mutex_);
      known = known_;
    }
    auto learned = learn(stream, pager_.budget(), machine_of(pager_.transfer_costs()), known.get());
    if (!learned && learned.error() == NoLesson::kNoWindow) recorder_.keep(std::min(kMostOps, 2 * stream.ops.size()));
    looks_that_fit_ = !learned && learned.error() == NoLesson::kFits ? looks_that_fit_ + 1 : 0;
    if (!learned) return;
    const std::lock_guard lock(mutex_);
    lesson_ = std::make_shared<const Lesson>(std::move(learned.value()));
  } catch (const std::exception& error) {
    say(std::string("no plan: ") + error.what());
  }
}

/// Between ops.
void Guide::begin() {
  if (is_resting_) {
    {
      const std::lock_guard lock(mutex_);
      lesson_.reset();  // of before
    }
    return rest_on();
  }
  bool has_another = false;
  const std::shared_ptr<const Lesson> lesson = take_lesson(has_another);
  if (has_another) return pager_.call_at_boundary([this] { begin(); });
  if (!lesson) {
    if (looks_that_fit_ >= kLooksBeforeRest) rest();
    return;
  }
  try {
    put_in_force(lesson);
  } catch (const std::exception& error) {
    let_go();
    say(std::string("no plan: ") + error.what());
  }
}

/// `has_another`: it is for another thread than this one.
std::shared_ptr<const Lesson> Guide::take_lesson(bool& has_another) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !lesson_) return nullptr;
  const bool is_followed = follower_thread_ != std::thread::id();
  const bool is_for_this = lesson_->thread == std::this_thread::get_id();
  const bool is_new = !is_followed || (follower_thread_ == lesson_->thread && lesson_->has_more_than(*known_));
  if (!is_new || (!is_for_this && ++missed_looks_ > kMostMissedLooks)) {
    lesson_.reset();
    return nullptr;
  }
  has_another = !is_for_this;
  return is_for_this ? std::exchange(lesson_, nullptr) : nullptr;
}

void Guide::put_in_force(const std::shared_ptr<const Lesson>& learned) {
  const Lesson& lesson = *learned;
  const trace::Stream stream = recorder_.stream();
  std::vector<std::shared_ptr<const plan::Agenda>> agendas;
  agendas.reserve(lesson.classes.size());
  for (const ClassLesson& one : lesson.classes) agendas.push_back(one.agenda);
  auto follower = std::make_unique<pager::PlanSwitch>(agendas);
  bool is_there = false;
  pager_.follow(follower.get(), [&](const auto& blocks) { is_there = catch_up(*follower, lesson, stream, blocks); });
  if (!is_there) return let_go();
  follower_ = std::move(follower);
  checked_ops_ = ops_;
  checked_followed_ = pager_.account().followed_ops;
  held_ = 0;
  const ClassLesson& most = lesson.classes.front();
  const plan::Plan& plan = most.agenda->plan();
  window_ops_ = plan.ops;
  look_at_ops_ = ops_ + kCheckWindows * plan.ops;
  look_at_steps_ = kNever;
  const Mark begun = now();
  {
    const std::lock_guard lock(mutex_);
    begun_ = begun;
    follower_thread_ = lesson.thread;
    known_ = learned;
    missed_looks_ = 0;
    ++progress_.plans;
    progress_.window_ops = plan.ops;
    progress_.predicted_peak_bytes = most.predicted().peak.count();
    progress_.predicted_window_seconds = std::chrono::duration<double>(most.predicted().step).count();
    progress_.predicted_overhead = most.predicted_overhead();
    progress_.lower_bound_overhead = most.lower_bound_overhead;
    progress_.placement_waste = ratio((plan.top() + plan.slab).count(), plan.predicted.peak.count()) - 1;
  }
  say(lesson.describe());
}

/// On the thread that is followed.
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
    if (++held_ >= kChecksBeforeRest) rest();
    return;
  }
  held_ = 0;
  if (share < kLeastFollowed) {
    let_go();
    // What several threads do together may look as if it repeated, time and again.
    taken_back_ = std::min(taken_back_ + 1, kMostTakenBack);
    look_at_ops_ = ops + (ops << taken_back_) / 4;
    look_at_steps_ = steps_ + (kFirstSteps << taken_back_) / 2;
    return say("the program does other than planned; what it does now is learned anew");
  }
  // At the first such check, the second, the fourth, the eighth: what it does besides may never come twice alike.
  if (std::has_single_bit(++checks_)) learn_more();
}

/// Nothing is recorded until it wakes. Between ops.
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

/// It is over where the program does other than planned, or no longer fits.
void Guide::at_rest() {
  const pager::Pager::Account account = pager_.account();
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
  recorder_.restart();
  pager_.set_sink(this);
  held_ = 0;
  checked_ops_ = ops_;
  checked_followed_ = mark.followed;
  look_at_ops_ = ops_ + (window_ops_ > 0 ? kCheckWindows * window_ops_ : kFirstOps);
  if (look_at_steps_ != kNever) look_at_steps_ = steps_ + kFirstSteps;
}

void Guide::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
  }
  look_at_ops_ = look_at_steps_ = kNever;
  changed_.notify_all();
  pager_.call_at_boundary({});
  pager_.follow(nullptr);
}

Guide::~Guide() {
  stop();
  if (worker_.joinable()) worker_.join();
}

Guide::Mark Guide::now() const {
  const pager::Pager::Account account = pager_.account();
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
    // Ops are those of which the plan knows, and all that is not paging is taken for compute.
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
  progress.followed_share = ratio(mark.followed - begun_.followed, mark.ops - begun_.ops);
  const double computed = mark.computed - begun_.computed;
  progress.measured_overhead = computed > 0 ? (mark.paged - begun_.paged) / computed : 0;
  return progress;
}

}  // namespace tensorpager::guide
