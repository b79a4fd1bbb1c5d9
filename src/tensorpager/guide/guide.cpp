// Recording, and the analyses of what was recorded. active_plan.cpp has what happens to the plans.
#include "tensorpager/guide/guide.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "tensorpager/base/clock.h"
#include "tensorpager/guide/analysis.h"

namespace tensorpager::guide {
namespace {

constexpr std::size_t kMostOps = std::size_t{1} << 17;  // ops that are remembered
// Six steps, and as many ops again that touch nothing yet.
constexpr std::uint64_t kOpsOfStep = 12;

/// Keeps the plans for later sessions; not those for similar windows, which will differ.
void keep_if_asked(const Profile& profile, const Guide::Options& options, base::Bytes budget) {
  if (!options.cache || profile.origin == Profile::Origin::kCache || profile.has_similar()) return;
  try {
    keep(profile, budget, *options.cache);
  } catch (const std::exception& error) {
    options.say(std::string("plans are not kept: ") + error.what());
  }
}

/// The first plan is made soon; what may be dropped takes longer to find.
const char* planner_for(base::Recomputation recomputation, bool is_first) {
  if (is_first || recomputation == base::Recomputation::kNone) return "pages";
  return recomputation == base::Recomputation::kEverywhere ? "recompute_all" : "hybrid";
}

bool is_replaying(const std::shared_ptr<const Profile>& active) { return active && active->has_replays(); }

}  // namespace

Guide::Guide(pager::Pager& pager, Options options)
    : pager_(pager),
      options_(std::move(options)),
      recorder_(options_.granule.value_or(pager.charge_for(base::Bytes(1))), options_.least_ops,
                pager.is_placed() ? trace::Recorder::Temporaries::kInOnePiece : trace::Recorder::Temporaries::kApart,
                pager.is_on_device() ? trace::Recorder::Computes::kOnDevice : trace::Recorder::Computes::kOnHost),
      adherence_(options_.refines ? Adherence::kMostReplacements : 0),
      worker_([this] { run_analysis(); }, [this] { call_at_boundary(&Guide::activate_pending); }) {
  if (!options_.plans) schedule_.stop();
}

Guide::~Guide() { stop(); }  // and `worker_` waits for its analysis

void Guide::stop() {
  {
    const std::lock_guard lock(mutex_);
    const std::optional<Phase> stopped = phase_after(phase_, Event::kStopped);
    if (!stopped) return;
    phase_ = *stopped;
    schedule_.stop();
  }
  worker_.stop();
  pager_.boundaries().call_once({});
  pager_.following().follow(nullptr);
}

bool Guide::is_recording_paused() const {
  const std::lock_guard lock(mutex_);
  return is_paused(phase_);
}

base::EventSink::Ticket Guide::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  if (!touched.empty()) {
    const std::uint64_t ops = ops_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (schedule_.may_be_due(ops)) {
      std::unique_lock lock(mutex_);
      const bool is_due = schedule_.count_ops(ops);
      lock.unlock();
      if (is_due) call_at_boundary(&Guide::at_boundary);
    }
  }
  return recorder_.op_begins(facts, touched);
}

void Guide::hint(base::Hint hint) noexcept {
  recorder_.hint(hint);
  if (hint == base::Hint::kOptimizerBegins) return;
  bool is_due = false;
  std::uint64_t steps = 0;
  {
    const std::lock_guard lock(mutex_);
    step_clock_.step_ends(base::seconds_now());
    is_due = schedule_.count_step();
    if (is_paused(phase_)) return;
    steps = schedule_.steps();
  }
  if (steps <= AnalysisSchedule::kFirstSteps) recorder_.keep(std::min(kMostOps, kOpsOfStep * ops_ / steps));
  if (is_due) call_at_boundary(&Guide::at_boundary);
}

/// Calls `task` where the program's next op begins, or that after so many ops; nothing is under way there. It takes the
/// place of a task that was not called yet.
void Guide::call_at_boundary(void (Guide::*task)(), std::uint64_t after_ops) {
  pager_.boundaries().call_once([this, task] { (this->*task)(); }, after_ops);
}

void Guide::at_boundary() {
  std::unique_lock lock(mutex_);
  const Phase phase = phase_;
  lock.unlock();
  switch (phase) {
    case Phase::kLearning:
      return request_analysis();
    case Phase::kFollowing:
      return is_on_followed_thread() ? check() : void();
    case Phase::kPausedUnplanned:
    case Phase::kPausedFollowing:
      return call_at_boundary(&Guide::check_pause, kOpsOfPause);  // this task took its place
    case Phase::kStopped:
      return;
  }
}

/// If another thread's op came first, tries again at the next op; deactivates the plan of a thread that has ended.
bool Guide::is_on_followed_thread() {
  bool has_ended = false;
  {
    const std::lock_guard lock(mutex_);
    if (known_->thread == this_thread()) {
      schedule_.meet_boundary();
      return true;
    }
    has_ended = schedule_.miss_boundary();
  }
  if (has_ended) deactivate();
  call_at_boundary(&Guide::at_boundary);
  return false;
}

void Guide::request_analysis() {
  if (options_.waits) {
    run_analysis();
    return activate_pending();
  }
  if (worker_.request()) return;
  const std::lock_guard lock(mutex_);
  schedule_.stop();  // without a thread there are no plans: the program continues on demand
}

/// If it fails the program continues on demand.
void Guide::run_analysis() {
  try {
    // Ops of which the times are not known yet are not in the stream. How many these are differs from run to run.
    if (device::OpClock* const clock = pager_.ordering().op_clock(); clock != nullptr && options_.waits)
      clock->tell_of_all();
    const trace::Stream stream = recorder_.stream();
    const pager::TransferCosts costs = pager_.accounts().transfer_costs();
    std::shared_ptr<const Profile> known;
    pager::TransferCosts before;
    {
      const std::lock_guard lock(mutex_);
      known = known_;
      before = costs_before_;
    }
    const machine::Machine machine = machine_since(before, costs);
    const std::string planner = planner_for(options_.recomputation, known == nullptr);
    auto found =
        analyse(stream, pager_.budget(), machine,
                {.known = known.get(), .cache = options_.cache ? &*options_.cache : nullptr, .planner = planner});
    if (!found) {
      if (found.error() == NoProfile::kNoWindow) recorder_.keep(std::min(kMostOps, 2 * stream.ops.size()));
      return note_none(found.error());
    }
    if (!is_of_use(found.value(), known, machine)) return;
    keep_if_asked(found.value(), options_, pager_.budget());
    const std::lock_guard lock(mutex_);
    pending_ = std::make_shared<const Profile>(std::move(found.value()));
  } catch (const std::exception& error) {
    options_.say(std::string("no plan: ") + error.what());
    const std::lock_guard lock(mutex_);
    adherence_.converge();
  }
}

void Guide::note_none(NoProfile reason) {
  const std::lock_guard lock(mutex_);
  adherence_.converge();
  if (reason == NoProfile::kFits)
    schedule_.all_fitted();
  else
    schedule_.not_all_fitted();
}

/// If the active plans cover all of `found`, compares what they predict now with the new ones.
bool Guide::is_of_use(const Profile& found, const std::shared_ptr<const Profile>& known,
                      const machine::Machine& machine) {
  std::vector<plan::Prediction> now;
  if (known) now = found.predict_again(*known, machine);
  const std::lock_guard lock(mutex_);
  schedule_.not_all_fitted();
  const bool is_replacement = is_following(phase_) && known_ == known && !now.empty();
  const bool is_wanted = options_.recomputation == base::Recomputation::kEverywhere && !is_replaying(known);
  if (!is_replacement || is_wanted || adherence_.is_worthwhile(gain_over(found, now))) return true;
  adherence_.converge();
  meter_.predict(now.front(), found.classes.front().lower_bound_overhead);
  return false;
}

}  // namespace tensorpager::guide
