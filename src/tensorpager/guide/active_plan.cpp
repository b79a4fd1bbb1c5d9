// What becomes of plans: they become active, are checked, and dropped if the program does other than planned; while
// they hold, recording pauses.
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tensorpager/base/clock.h"
#include "tensorpager/guide/catch_up.h"
#include "tensorpager/guide/guide.h"

namespace tensorpager::guide {
namespace {

ProgressMeter::Reading read(pager::Pager& pager, const trace::Recorder& recorder, std::uint64_t ops) {
  const pager::Account account = pager.accounts().account();
  return {.ops = ops,
          .followed = account.followed_ops,
          .missed = account.plan_misses,
          .page_outs = account.page_outs,
          .paged = account.paging_seconds,
          .computed = std::chrono::duration<double>(recorder.op_time()).count(),
          .at = base::seconds_now()};
}

const char* name_of(Profile::Origin origin, bool replaces) {
  switch (origin) {
    case Profile::Origin::kUser:
      return "user-supplied plan: ";
    case Profile::Origin::kCache:
      return "plan from the cache: ";
    case Profile::Origin::kAnalysis:
      break;
  }
  return replaces ? "plan rebuilt: " : "plan active: ";
}

}  // namespace

void Guide::activate_user_supplied(Profile profile) {
  auto shared = std::make_shared<Profile>(std::move(profile));
  pager_.boundaries().call_once([this, shared] {
    shared->thread = this_thread();
    activate(shared);
  });
}

/// Activates what the newest analysis planned, if that is for this thread; else tries again at the next op.
void Guide::activate_pending() {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kStopped) return;
  if (is_paused(phase_)) {
    pending_.reset();  // made before the pause
    lock.unlock();
    return call_at_boundary(&Guide::check_pause, kOpsOfPause);  // this task took its place
  }
  const bool is_for_this = pending_ && pending_->thread == this_thread();
  if (pending_) {
    const bool is_for_another = is_following(phase_) && known_->thread != pending_->thread;
    if (is_for_another || (!is_for_this && schedule_.miss_boundary())) pending_.reset();
  }
  if (pending_ && !is_for_this) {
    lock.unlock();
    return call_at_boundary(&Guide::activate_pending);
  }
  const std::shared_ptr<const Profile> profile = std::exchange(pending_, nullptr);
  const bool fits_for_long = schedule_.fits_for_long();
  lock.unlock();
  if (profile) return activate(profile);
  if (fits_for_long) pause_recording();
}

/// If it fails the program continues on demand.
void Guide::activate(const std::shared_ptr<const Profile>& profile) {
  {
    const std::lock_guard lock(mutex_);
    if (!phase_after(phase_, Event::kActivated)) return;
  }
  try {
    const trace::Stream stream = recorder_.stream();
    std::vector<std::shared_ptr<const follow::Agenda>> agendas;
    agendas.reserve(profile->classes.size());
    for (const ClassProfile& one : profile->classes) agendas.push_back(one.agenda);
    if (profile->has_replays()) options_.before_replays();
    auto follower = std::make_unique<follow::PlanSwitch>(agendas);
    // Where the program is in a user-supplied plan, the follower finds out.
    bool is_there = profile->origin == Profile::Origin::kUser;
    pager_.following().follow(follower.get(), [&](const auto& blocks) {
      if (!is_there) is_there = catch_up(*follower, *profile, stream, blocks);
    });
    if (!is_there) return deactivate();
    follower_ = std::move(follower);
    note_active(profile);
  } catch (const std::exception& error) {
    deactivate();
    options_.say(std::string("no plan: ") + error.what());
  }
}

void Guide::note_active(const std::shared_ptr<const Profile>& profile) {
  const ProgressMeter::Reading now = read(pager_, recorder_, ops_);
  const pager::TransferCosts costs = pager_.accounts().transfer_costs();
  const ClassProfile& most = profile->classes.front();
  const Adherence::Counts counts{.ops = now.ops, .followed = now.followed};
  bool replaces = false;
  {
    std::unique_lock lock(mutex_);
    const std::optional<Phase> following = phase_after(phase_, Event::kActivated);
    if (!following) {  // stopped meanwhile
      lock.unlock();
      return deactivate();
    }
    replaces = is_following(phase_);
    phase_ = *following;
    known_ = profile;
    if (!replaces) costs_before_ = costs;
    schedule_.plan_activated(now.ops, most.agenda->ops());
    if (profile->origin == Profile::Origin::kUser)
      adherence_.activated_user_supplied(counts);
    else if (replaces)
      adherence_.replaced(counts);
    else
      adherence_.activated(counts);
    meter_.plan_activated(now, most.agenda->plan());
    meter_.predict(most.predicted(), most.lower_bound_overhead);
  }
  options_.say(name_of(profile->origin, replaces) + profile->describe());
}

void Guide::deactivate() {
  pager_.following().follow(nullptr);
  follower_.reset();
  const std::lock_guard lock(mutex_);
  phase_ = phase_after(phase_, Event::kDeactivated).value_or(phase_);
}

/// Whether the program does as planned.
void Guide::check() {
  const Adherence::Counts now{.ops = ops_, .followed = pager_.accounts().account().followed_ops};
  Adherence::Verdict verdict = Adherence::Verdict::kKeep;
  {
    const std::lock_guard lock(mutex_);
    using Windows = Adherence::Windows;
    verdict = adherence_.check(now, known_->has_similar() ? Windows::kSimilar : Windows::kEqual);
    schedule_.plan_checked(now.ops);
    if (verdict == Adherence::Verdict::kDrop) schedule_.plan_dropped(now.ops, adherence_.drops());
  }
  switch (verdict) {
    case Adherence::Verdict::kKeep:
      return;
    case Adherence::Verdict::kAnalyse:
      return request_analysis();
    case Adherence::Verdict::kPause:
      return pause_recording();
    case Adherence::Verdict::kDrop:
      deactivate();
      options_.say("plan dropped: the program no longer does what was planned; it is being profiled again");
  }
}

/// Call it between ops.
void Guide::pause_recording() {
  if (!options_.pauses) return;
  const ProgressMeter::Reading now = read(pager_, recorder_, ops_);
  {
    const std::lock_guard lock(mutex_);
    const std::optional<Phase> paused = phase_after(phase_, Event::kPaused);
    if (!paused) return;
    phase_ = *paused;
    meter_.recording_paused(now);
  }
  pager_.set_sink(nullptr);
  call_at_boundary(&Guide::check_pause, kOpsOfPause);
}

/// Resumes recording if the program does other than planned, or no longer fits.
void Guide::check_pause() {
  const ProgressMeter::Reading now = read(pager_, recorder_, ops_);
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<Phase> resumed = phase_after(phase_, Event::kResumed);
    if (!resumed) return;
    const ProgressMeter::Reading since = meter_.since_pause(now);
    is_over = is_following(phase_) ? !Adherence::is_followed(since.followed, since.followed + since.missed)
                                   : since.page_outs > 0;
    if (is_over) {
      phase_ = *resumed;
      meter_.recording_resumed(now);
      schedule_.recording_resumed(now.ops);
      adherence_.resumed({.ops = now.ops, .followed = now.followed});
    }
  }
  if (!is_over) return call_at_boundary(&Guide::check_pause, kOpsOfPause);
  recorder_.restart();
  pager_.set_sink(this);
}

Progress Guide::progress() const {
  const ProgressMeter::Reading now = read(pager_, recorder_, ops_);
  const std::lock_guard lock(mutex_);
  Progress progress = meter_.progress(now);
  progress.step_seconds = step_clock_.median();
  return progress;
}

}  // namespace tensorpager::guide
