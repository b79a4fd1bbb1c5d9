#include "tensorpager/guide/guide.h"

#include <signal.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

namespace tensorpager::guide {
namespace {

constexpr std::uint64_t kAnalysesBeforePause = 2;  // at which all fitted the budget
constexpr std::uint64_t kMostMissedBoundaries =
    1000;  // after so many ops of other threads the one that is followed has ended
constexpr std::size_t kMostOps = std::size_t{1} << 17;  // ops that are remembered
// Six steps, and as many ops again that touch nothing yet.
constexpr std::uint64_t kOpsOfStep = 12;
constexpr std::uint64_t kEnoughBlocks = 16;  // least number of moved blocks from which the cost of one is known
// Share of a window's time: an active plan is not changed for a smaller gain.
constexpr double kLeastGain = 0.02;

}  // namespace

Guide::Guide(pager::Pager& pager, Options options)
    : pager_(pager),
      options_(std::move(options)),
      recorder_(options_.granule.value_or(pager.charge_for(base::Bytes(1))), options_.least_ops,
                pager.is_placed() ? trace::Recorder::Temporaries::kInOnePiece : trace::Recorder::Temporaries::kApart),
      due_at_ops_(options_.plans ? kFirstOps : kNever),
      due_at_steps_(options_.plans ? kFirstSteps : kNever),
      has_converged_(!options_.refines) {}

base::EventSink::Ticket Guide::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  if (!touched.empty()) count();
  return recorder_.op_begins(facts, touched);
}

void Guide::count() {
  const std::uint64_t ops = ops_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ops < due_at_ops_.load(std::memory_order_relaxed)) return;
  due_at_ops_ = ops + ops / 4;
  const bool is_followed = due_at_steps_ == kNever;
  if (is_followed || steps_ == 0) look();
}

void Guide::hint(base::Hint hint) noexcept {
  recorder_.hint(hint);
  if (hint == base::Hint::kOptimizerBegins) return;
  const std::uint64_t steps = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (is_paused_) return;
  if (steps <= kFirstSteps) recorder_.keep(std::min(kMostOps, kOpsOfStep * ops_ / steps));
  if (steps < due_at_steps_.load(std::memory_order_relaxed)) return;
  due_at_steps_ = steps + 1 + steps / 4;
  look();
}

/// Calls back where the program's next op begins; nothing is under way there.
void Guide::look() {
  pager_.call_at_boundary([this] { at_boundary(); });
}

void Guide::at_boundary() {
  if (is_paused_) return check_pause_later();  // it replaced the check whether the pause is over
  bool is_followed = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_followed = follower_thread_ != std::thread::id();
  }
  if (!is_followed) return request_analysis();
  if (!is_for_another_thread()) check();
}

/// If another thread's op came first, tries again at the next; cancels a plan for a thread that has ended.
bool Guide::is_for_another_thread() {
  bool has_ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (follower_thread_ == std::this_thread::get_id()) {
      missed_boundaries_ = 0;
      return false;
    }
    has_ended = ++missed_boundaries_ > kMostMissedBoundaries;
    if (has_ended) follower_thread_ = {};
  }
  if (has_ended) pager_.follow(nullptr);
  look();
  return true;
}

void Guide::request_analysis() {
  if (options_.waits) {
    run_analysis();
    return begin();
  }
  const std::lock_guard lock(mutex_);
  if (is_analysing_) return;
  is_wanted_ = true;
  if (worker_.joinable()) return changed_.notify_all();
  // The program's signals are for its own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    due_at_ops_ = due_at_steps_ = kNever;  // without a thread there are no plans: continues on demand
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
      is_analysing_ = true;
    }
    run_analysis();
    {
      const std::lock_guard lock(mutex_);
      is_analysing_ = false;
    }
    pager_.call_at_boundary([this] { begin(); });
  }
}

/// If it fails the program continues on demand.
void Guide::run_analysis() {
  try {
    const trace::Stream stream = recorder_.stream();
    std::shared_ptr<const Profile> known;
    pager::TransferCosts costs = pager_.transfer_costs();
    {
      const std::lock_guard lock(mutex_);
      known = known_;
      // Under a plan transfer threads do what ops did before it.
      const auto since = costs.since(followed_costs_);
      if (std::min(since.page_out.blocks, since.page_in.blocks) >= kEnoughBlocks) costs = since;
    }
    const machine::Machine machine = machine_of(costs);
    auto found = analyse(stream, pager_.budget(), machine, known.get(), options_.cache ? &*options_.cache : nullptr);
    if (!found && found.error() == NoProfile::kNoWindow) recorder_.keep(std::min(kMostOps, 2 * stream.ops.size()));
    analyses_that_fit_ = !found && found.error() == NoProfile::kFits ? analyses_that_fit_ + 1 : 0;
    if (!found) has_converged_ = true;
    if (!found || !is_of_use(found.value(), known, machine)) return;
    if (!found.value().is_kept && !found.value().has_similar()) keep(found.value());
    const std::lock_guard lock(mutex_);
    pending_ = std::make_shared<const Profile>(std::move(found.value()));
  } catch (const std::exception& error) {
    has_converged_ = true;
    say(std::string("no plan: ") + error.what());
  }
}

/// Keeps the plans for later sessions.
void Guide::keep(const Profile& profile) const {
  if (!options_.cache) return;
  plan::PlanCache::Traces traces;
  std::vector<plan::Plan> plans;
  for (const ClassProfile& one : profile.classes) {
    traces.push_back(one.trace.get());
    plans.push_back(one.agenda->plan());
  }
  try {
    options_.cache->keep(traces, pager_.budget(), plans);
  } catch (const std::exception& error) {
    say(std::string("plans are not kept: ") + error.what());
  }
}

/// If the active plans cover all of `found`, compares what they predict now with the new ones.
bool Guide::is_of_use(const Profile& found, const std::shared_ptr<const Profile>& known,
                      const machine::Machine& machine) {
  const auto is_followed = [&] { return follower_thread_ != std::thread::id() && known_ == known; };
  {
    const std::lock_guard lock(mutex_);
    if (!is_followed() || found.has_more_than(*known)) return true;
  }
  const std::vector<plan::Prediction> now = found.predict_again(*known, machine);
  if (options_.refines && gain_over(found, now) >= kLeastGain) return true;
  has_converged_ = true;
  const std::lock_guard lock(mutex_);
  if (!now.empty() && is_followed()) note_prediction(found.classes.front(), now.front());
  return false;
}

void Guide::activate_user_supplied(Profile given) {
  auto profile = std::make_shared<Profile>(std::move(given));
  pager_.call_at_boundary([this, profile] {
    profile->thread = std::this_thread::get_id();
    activate(profile, true);
  });
}

/// Call it between ops.
void Guide::begin() {
  if (is_paused_) {
    {
      const std::lock_guard lock(mutex_);
      pending_.reset();  // made before the pause
    }
    return check_pause_later();
  }
  bool has_another = false;
  const std::shared_ptr<const Profile> profile = take_pending(has_another);
  if (has_another) return pager_.call_at_boundary([this] { begin(); });
  if (!profile) {
    if (analyses_that_fit_ >= kAnalysesBeforePause) pause_recording();
    return;
  }
  activate(profile);
}

/// `has_another`: the profile is for another thread than this one.
std::shared_ptr<const Profile> Guide::take_pending(bool& has_another) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !pending_) return nullptr;
  const bool is_followed = follower_thread_ != std::thread::id();
  const bool is_for_this = pending_->thread == std::this_thread::get_id();
  const bool is_other = is_followed && follower_thread_ != pending_->thread;
  if (is_other || (!is_for_this && ++missed_boundaries_ > kMostMissedBoundaries)) {
    pending_.reset();
    return nullptr;
  }
  has_another = !is_for_this;
  return is_for_this ? std::exchange(pending_, nullptr) : nullptr;
}

void Guide::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
  }
  due_at_ops_ = due_at_steps_ = kNever;
  changed_.notify_all();
  pager_.call_at_boundary({});
  pager_.follow(nullptr);
}

Guide::~Guide() {
  stop();
  if (worker_.joinable()) worker_.join();
}

}  // namespace tensorpager::guide
