#include "tensorpager/guide/guide.h"

#include <signal.h>

#include <algorithm>
#include <limits>
#include <system_error>

namespace tensorpager::guide {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kFirstSteps = 3;   // fewer show no two alike: an optimizer makes its state in the first
constexpr std::uint64_t kFirstOps = 4096;  // where nothing tells steps
constexpr std::uint64_t kCheckWindows = 4;
constexpr double kLeastFollowed = 0.5;  // of the ops between two checks; below it a plan is taken back

}  // namespace

Guide::Guide(pager::Pager& pager, Options options)
    : pager_(pager),
      options_(std::move(options)),
      recorder_(pager.charge_for(base::Bytes(1)), options_.most_ops),
      look_at_ops_(options_.plans ? kFirstOps : kNever),
      look_at_steps_(options_.plans ? kFirstSteps : kNever) {}

base::EventSink::Ticket Guide::op_begins(const base::OpFacts& facts, std::span<const base::Touch> touched) noexcept {
  if (!touched.empty()) count();
  return recorder_.op_begins(facts, touched);
}

void Guide::count() {
  const std::uint64_t ops = ops_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ops < look_at_ops_.load(std::memory_order_relaxed)) return;
  look_at_ops_ = ops + ops / 2;
  look();
}

void Guide::hint(base::Hint hint) noexcept {
  recorder_.hint(hint);
  if (hint == base::Hint::kOptimizerBegins) return;
  const std::uint64_t steps = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (steps < look_at_steps_.load(std::memory_order_relaxed)) return;
  look_at_steps_ = steps + 1 + steps / 4;
  look();
}

/// Where the program's next op begins; nothing is under way there.
void Guide::look() {
  pager_.call_at_boundary([this] { at_boundary(); });
}

void Guide::at_boundary() {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
  }
  if (cursor_) return check();
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

void Guide::study() {
  auto learned = learn(recorder_.stream(), pager_.budget(), machine_of(pager_.rates()));
  if (!learned) return;
  const std::lock_guard lock(mutex_);
  lesson_ = std::move(learned.value());
}

/// On the program's thread, between ops.
void Guide::begin() {
  std::optional<Lesson> lesson;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_ || !lesson_ || cursor_) return;
    if (lesson_->thread == std::this_thread::get_id()) lesson.swap(lesson_);
  }
  if (!lesson) return pager_.call_at_boundary([this] { begin(); });  // another thread's op was first
  const trace::Stream stream = recorder_.stream();
  auto cursor = std::make_unique<pager::PlanCursor>(lesson->agenda);
  bool is_there = false;
  pager_.follow(cursor.get(), [&](const auto& blocks) { is_there = catch_up(*cursor, *lesson, stream, blocks); });
  if (!is_there) return pager_.follow(nullptr);
  cursor_ = std::move(cursor);
  checked_ops_ = ops_;
  checked_followed_ = 0;
  look_at_ops_ = ops_ + kCheckWindows * lesson->agenda->ops();
  look_at_steps_ = kNever;
  {
    const std::lock_guard lock(mutex_);
    ++progress_.plans;
    progress_.window_ops = lesson->agenda->ops();
    progress_.predicted_peak_bytes = lesson->predicted().peak.count();
    progress_.predicted_window_seconds = std::chrono::duration<double>(lesson->predicted().step).count();
    progress_.predicted_overhead = lesson->predicted_overhead();
    progress_.lower_bound_overhead = lesson->lower_bound_overhead;
  }
  if (options_.say) options_.say(lesson->describe());
}

/// Whether the program does as planned.
void Guide::check() {
  const std::uint64_t ops = ops_, followed = cursor_->followed_ops();
  const double share =
      static_cast<double>(followed - checked_followed_) / static_cast<double>(std::max(ops - checked_ops_, std::uint64_t{1}));
  checked_ops_ = ops;
  checked_followed_ = followed;
  look_at_ops_ = ops + kCheckWindows * progress().window_ops;
  if (share >= kLeastFollowed) return;
  pager_.follow(nullptr);
  cursor_.reset();
  look_at_ops_ = ops + ops / 2;
  look_at_steps_ = steps_ + kFirstSteps;
  if (options_.say) options_.say("the program does other than planned; what it does now is learned anew");
}

void Guide::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
  }
  changed_.notify_all();
  pager_.follow(nullptr);
  look_at_ops_ = look_at_steps_ = kNever;
}

Progress Guide::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

}  // namespace tensorpager::guide
